// A connection that is cut takes messages with it and comes back before anybody is silent: leader and rank find out all
// the same. Each test is what a seed of the simulation has shown.
#include "common/transport/loopback_transport.h"
#include "common/wire/addresses.h"
#include "common/wire/codec.h"
#include "shard_server/service/rank_loop.h"
#include "tests/unit/shard_server/service/leader_fixture.h"

namespace krait::test {
namespace {

class LostMessages : public LeaderFixture {
 protected:
  /// Everybody but the leader has said Join; the group is being formed.
  void load(uint32_t world) {
    make(world);
    for (uint32_t rank = 0; rank < world; ++rank)
      leader->from_rank(rank, join_of(rank, world));
    ASSERT_EQ(leader->state(), wire::GroupState::kLoading);
    forget();
  }

  std::vector<wire::Step> two_plans(uint32_t world) {
    make(world);
    serve(world);
    hello("c", 1);
    submit("c", 1);
    return said_to_rank<wire::Step>(0);
  }
};

TEST_F(LostMessages, WhatARankThatIsNotReadyMayHaveMissedIsSaidAgain) {
  load(3);
  leader->from_rank(0, ready_of(0));
  leader->from_rank(1, ready_of(1));
  advance(limits::kHeartbeatNs, {0, 1, 2}, {});
  EXPECT_TRUE(said_to_rank<wire::Form>(0).empty()) << "nothing is lost on the way to the leader's own rank";
  EXPECT_TRUE(said_to_rank<wire::Load>(1).empty()) << "it is ready";
  ASSERT_EQ(said_to_rank<wire::Form>(2).size(), 1u);
  EXPECT_EQ(said_to_rank<wire::Form>(2)[0].epoch, epochs);
  ASSERT_EQ(said_to_rank<wire::Load>(2).size(), 1u);
  EXPECT_EQ(said_to_rank<wire::Load>(2)[0].epoch, epochs);
}

TEST_F(LostMessages, AReadyOfAGroupThatThisLeaderDoesNotKnowIsAnsweredWithLeave) {
  make(2);
  leader->from_rank(1, ready_of(1));
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
}

TEST_F(LostMessages, AnAnswerThatLeavesOneOutEndsTheGroup) {
  const auto plans = two_plans(2);
  ASSERT_EQ(plans.size(), 2u);
  leader->from_rank(1, done_of(plans[1]));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  take();
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_NE(aborts[0].find("rank 1 answered step 2"), std::string::npos) << aborts[0];
}

TEST_F(LostMessages, AStepWhoseLastAnswerIsLostIsNotWaitedForForever) {
  const auto plans = two_plans(2);
  ASSERT_EQ(plans.size(), 2u);
  leader->from_rank(0, done_of(plans[0]));
  leader->from_rank(0, done_of(plans[1]));
  const int64_t deadline_ns = plans[0].deadline_ms * kMs;
  advance(deadline_ns, {0, 1}, {"c"});
  EXPECT_EQ(leader->state(), wire::GroupState::kServing) << "the ranks' own deadline comes first";
  advance(limits::kPeerTimeoutNs + 2 * limits::kHeartbeatNs, {0, 1}, {"c"});
  EXPECT_EQ(leader->stats().groups_lost, 1u);
  EXPECT_EQ(said_to<wire::Finished>("c").size(), 1u);
}

TEST_F(LostMessages, ALeaderAloneTakesTheTimeThatAStepTakes) {
  const auto plans = two_plans(1);
  ASSERT_EQ(plans.size(), 2u);
  advance(2 * plans[0].deadline_ms * kMs, {0}, {"c"});
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
}

/// A rank's loop whose commands are only written down.
class RankLoopTest : public testing::Test {
 protected:
  struct Runner final : shard::CommandRunner {
    bool post(wire::Message command) override {
      posted.push_back(std::move(command));
      return true;
    }
    void abort(const std::string&) override { ++aborts; }
    shard::RankFigures figures() const override { return {}; }
    std::vector<wire::Message> posted;
    int aborts = 0;
  };

  RankLoopTest() {
    options.join = LeaderFixture::join_of(1, 2);
    options.run_dir = "here";
    leader_endpoint = leader_side->bind(address()).value();
    const shard::GroupEndpoints endpoints{rank_side->connect(address(), "rank").value(), -1};
    loop.emplace(options, shard::LoopTools{clock, *rank_side, endpoints, runner, metrics});
  }
  static std::string address() { return "loop://ranks"; }

  void tell(const wire::Message& message) {
    ASSERT_TRUE(leader_side->send(leader_endpoint, "rank", wire::encode(message)).ok());
    turn();
  }
  void form(uint64_t epoch) {
    wire::Form form;
    form.epoch = epoch;
    form.world = 2;
    tell(form);
  }
  void turn(std::vector<wire::Message> answers = {}) { ASSERT_FALSE(loop->turn(0, std::move(answers)).has_value()); }

  /// What the leader hears after the next heartbeat interval.
  wire::Message sign_of_life() {
    while (leader_side->receive()) {
    }
    clock.advance(limits::kHeartbeatNs);
    turn();
    const auto packet = leader_side->receive();
    return packet ? wire::decode(packet->bytes).value() : wire::Message();
  }

  ManualClock clock{1};
  std::shared_ptr<transport::LoopbackHub> hub = transport::make_loopback_hub(100);
  std::unique_ptr<transport::Transport> leader_side = transport::make_loopback_transport(hub);
  std::unique_ptr<transport::Transport> rank_side = transport::make_loopback_transport(hub);
  transport::EndpointId leader_endpoint = -1;
  metrics::Registry registry{metrics::Process::kShard};
  shard::ShardMetrics metrics{registry};
  Runner runner;
  shard::LoopOptions options;
  std::optional<shard::RankLoop> loop;
};

TEST_F(RankLoopTest, WhatTheLeaderSaysAgainIsDoneOnce) {
  for (int i = 0; i < 3; ++i) {
    form(7);
    tell(wire::Load{7, 0});
  }
  ASSERT_EQ(runner.posted.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<wire::Form>(runner.posted[0]));
  EXPECT_TRUE(std::holds_alternative<wire::Load>(runner.posted[1]));
}

TEST_F(RankLoopTest, ALoadThatComesBeforeItsFormIsTakenWhenItIsSaidAgain) {
  tell(wire::Load{7, 0});
  EXPECT_TRUE(runner.posted.empty());
  form(7);
  tell(wire::Load{7, 0});
  ASSERT_EQ(runner.posted.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<wire::Load>(runner.posted[1]));
}

TEST_F(RankLoopTest, ReadyIsSaidUntilAStepShowsThatItWasHeard) {
  form(7);
  tell(wire::Load{7, 0});
  EXPECT_TRUE(std::holds_alternative<wire::Heartbeat>(sign_of_life()));
  wire::Ready ready;
  ready.epoch = 7;
  ready.rank = 1;
  turn({ready});
  EXPECT_TRUE(std::holds_alternative<wire::Ready>(sign_of_life()));
  EXPECT_TRUE(std::holds_alternative<wire::Ready>(sign_of_life()));
  wire::Step step;
  step.epoch = 7;
  step.step = 1;
  step.runs.emplace_back().tokens = {1};
  tell(step);
  EXPECT_TRUE(std::holds_alternative<wire::Heartbeat>(sign_of_life()));
}

TEST_F(RankLoopTest, InAGroupThatWasFormedAnewItDrainsAsInTheFirst) {
  form(7);
  tell(wire::Leave{7, "lost"});
  form(8);
  clock.advance(1);
  tell(wire::Heartbeat{1});
  ASSERT_FALSE(loop->turn(1, {}).has_value()) << "what is open there has its time";
  const auto said = [&] {
    const auto packet = leader_side->receive();
    return packet && std::holds_alternative<wire::Drain>(wire::decode(packet->bytes).value());
  };
  EXPECT_TRUE(said());
  ASSERT_TRUE(leader_side->send(leader_endpoint, "rank", wire::encode(wire::Heartbeat{1})).ok());
  clock.advance(limits::kHeartbeatNs);
  ASSERT_FALSE(loop->turn(1, {}).has_value());
  EXPECT_TRUE(said()) << "the first may have been lost";
  ASSERT_TRUE(leader_side->send(leader_endpoint, "rank", wire::encode(wire::Leave{8, "drained"})).ok());
  EXPECT_TRUE(loop->turn(1, {}).has_value());
}

TEST_F(RankLoopTest, TheFailureOfAnEarlierGroupIsNothingToTheNextOne) {
  form(7);
  tell(wire::Leave{7, "lost"});
  form(8);
  turn({wire::Failed{7, 1, Error{Errc::kUnavailable, "lost", ""}}});
  EXPECT_TRUE(std::holds_alternative<wire::Heartbeat>(sign_of_life())) << "it is in a group";
  turn({wire::Failed{8, 1, Error{Errc::kUnavailable, "lost", ""}}});
  EXPECT_TRUE(std::holds_alternative<wire::Join>(sign_of_life())) << "it has left it";
  form(8);
  EXPECT_TRUE(std::holds_alternative<wire::Form>(runner.posted.back())) << "the leader asks again";
}

}  // namespace
}  // namespace krait::test
