// A group that serves: steps, ranks that disagree or are lost, coordinators that come and go, the end.
#include "tests/unit/shard_server/service/leader_fixture.h"

namespace krait::test {
namespace {

class LeaderServing : public LeaderFixture {
 protected:
  void start(uint32_t world) {
    make(world);
    serve(world);
    hello("c", 1);
    submit("c", 1);
    take();
  }
  uint32_t open_sequences() const { return leader->status().running + leader->status().waiting; }
  std::vector<wire::Step> steps(uint32_t rank = 0) { return said_to_rank<wire::Step>(rank); }

  void expect_lost(const std::string& word) {
    EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
    const auto finished = said_to<wire::Finished>("c");
    ASSERT_EQ(finished.size(), 1u);
    EXPECT_EQ(finished[0].reason, wire::FinishReason::kError);
    EXPECT_EQ(finished[0].error.code, Errc::kUnavailable);
    EXPECT_NE(finished[0].error.message.find(word), std::string::npos) << finished[0].error.message;
    EXPECT_EQ(said_to<wire::Status>("c").back().state, wire::GroupState::kWaiting);
    ASSERT_EQ(aborts.size(), 1u) << "the local rank's collectives must end";
    for (uint32_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(said_to_rank<wire::Leave>(rank).size(), 1u);
  }
};

TEST_F(LeaderServing, PlansGoToEveryRankAndTokensLeaveWhenAllAgree) {
  start(2);
  ASSERT_EQ(steps(0).size(), 2u);
  EXPECT_EQ(steps(0), steps(1));
  EXPECT_EQ(steps(0)[0].epoch, 1u);
  leader->from_rank(1, done_of(steps()[0]));
  EXPECT_TRUE(said_to<wire::Tokens>("c").empty());
  leader->from_rank(0, done_of(steps()[0]));
  const auto tokens = said_to<wire::Tokens>("c");
  ASSERT_EQ(tokens.size(), 1u);
  ASSERT_EQ(tokens[0].chunks.size(), 1u);
  EXPECT_EQ(tokens[0].chunks[0].tokens.at(0).token, 7);
  EXPECT_EQ(steps().size(), 3u) << "and the next plan is made";
}

TEST_F(LeaderServing, ARankThatIsAheadIsWaitedFor) {
  start(2);
  leader->from_rank(1, done_of(steps()[0]));
  leader->from_rank(1, done_of(steps()[1]));
  leader->from_rank(0, done_of(steps()[0]));
  EXPECT_EQ(said_to<wire::Tokens>("c").size(), 1u);
  leader->from_rank(0, done_of(steps()[1]));
  EXPECT_EQ(said_to<wire::Tokens>("c").size(), 2u);
}

TEST_F(LeaderServing, RanksThatDisagreeEndTheGroupBeforeATokenLeaves) {
  start(2);
  leader->from_rank(0, done_of(steps()[0], 5));
  leader->from_rank(1, done_of(steps()[0], 6));
  EXPECT_TRUE(said_to<wire::Tokens>("c").empty());
  expect_lost("disagrees");
  EXPECT_EQ(leader->stats().digest_mismatches, 1u);
}

TEST_F(LeaderServing, AnAnswerToAStepThatWasNotAskedEndsTheGroup) {
  start(2);
  auto done = done_of(steps()[0]);
  done.step = 12;
  leader->from_rank(1, done);
  expect_lost("not asked");
}

TEST_F(LeaderServing, AnAnswerThatComesTwiceEndsTheGroup) {
  start(2);
  leader->from_rank(1, done_of(steps()[0]));
  leader->from_rank(1, done_of(steps()[0]));
  expect_lost("not asked");
}

TEST_F(LeaderServing, AnAnswerWithoutItsTokensEndsTheGroup) {
  start(2);
  auto done = done_of(steps()[0]);
  done.samples.clear();
  leader->from_rank(0, done);
  leader->from_rank(1, done_of(steps()[0]));
  expect_lost("was due");
}

TEST_F(LeaderServing, AStepOfAnOldEpochIsOldNews) {
  start(2);
  auto old = done_of(steps()[0]);
  old.epoch = 99;
  leader->from_rank(0, old);
  leader->from_rank(0, old);
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
}

TEST_F(LeaderServing, ASilentRankEndsTheGroup) {
  start(2);
  advance(limits::kPeerTimeoutNs - limits::kHeartbeatNs, {0, 1}, {"c"});
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
  advance(limits::kPeerTimeoutNs, {0}, {"c"});
  EXPECT_EQ(leader->state(), wire::GroupState::kServing) << "not yet";
  advance(1, {0}, {"c"});
  expect_lost("rank 1 is silent");
}

TEST_F(LeaderServing, AFailedRankEndsTheGroupWhichFormsAgain) {
  start(2);
  leader->from_rank(1, wire::Failed{1, 1, Error{Errc::kUnavailable, "its peer is gone", ""}});
  expect_lost("its peer is gone");
  submit("c", 2);
  EXPECT_EQ(said_to<wire::Rejected>("c").at(0).error.code, Errc::kUnavailable);
  leader->from_rank(1, wire::Failed{1, 1, {}});  // says it twice
  clock.advance(limits::kReformDelayNs);
  serve(2);
  EXPECT_EQ(leader->stats().groups_lost, 1u);
  forget();
  submit("c", 3);
  const auto again = steps();
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again[0].epoch, 2u);
  EXPECT_EQ(again[0].step, 1u);
  leader->from_rank(0, done_of(again[0]));
  leader->from_rank(1, done_of(again[0]));
  EXPECT_EQ(said_to<wire::Tokens>("c").size(), 1u);
}

TEST_F(LeaderServing, ARestartedCoordinatorHasForgottenItsRequests) {
  start(1);
  submit("d", 1);
  leader->from_rank(0, done_of(steps()[0]));
  forget();
  hello("c", 2);
  EXPECT_EQ(said_to<wire::Status>("c").size(), 1u);
  EXPECT_EQ(leader->status().running, 1u) << "the other coordinator's";
  submit("c", 1);
  EXPECT_EQ(said_to<wire::Accepted>("c").size(), 1u) << "it may use the number again";
  EXPECT_EQ(leader->status().running, 1u) << "one plan is in flight, so the new one waits for the next";
  EXPECT_EQ(leader->status().waiting, 1u);
}

TEST_F(LeaderServing, NothingOfTheOldCoordinatorReachesTheNewOne) {
  start(1);
  const auto made = steps();
  leader->from_rank(0, done_of(made[0]));  // its token is on the way
  hello("c", 2);
  leader->from_rank(0, done_of(made[1]));
  take();
  to_coordinator.erase("d");
  const auto tokens = said_to<wire::Tokens>("c");
  EXPECT_TRUE(tokens.empty());
  EXPECT_TRUE(said_to<wire::Finished>("c").empty());
  EXPECT_EQ(leader->status().running, 0u);
}

TEST_F(LeaderServing, ARefusalOfTheOldCoordinatorDoesNotReachTheNewOne) {
  make(1);
  hello("c", 1);
  submit("c", 1);  // refused: nothing serves
  hello("c", 2);
  EXPECT_TRUE(said_to<wire::Rejected>("c").empty()) << "the new one may have a request of that number";
  EXPECT_EQ(said_to<wire::Status>("c").size(), 1u);
}

TEST_F(LeaderServing, AHeartbeatOfAnotherIncarnationCountsAsARestart) {
  start(1);
  EXPECT_EQ(leader->status().running, 1u);
  leader->from_coordinator("c", wire::Heartbeat{1});
  EXPECT_EQ(leader->status().running, 1u);
  leader->from_coordinator("c", wire::Heartbeat{2});
  EXPECT_EQ(leader->status().running, 0u);
}

TEST_F(LeaderServing, ASilentCoordinatorsRequestsAreEndedAndItIsTold) {
  start(1);
  hello("d", 1);
  submit("d", 1);
  advance(limits::kPeerTimeoutNs + limits::kHeartbeatNs, {0}, {"d"});
  EXPECT_EQ(open_sequences(), 1u) << "the other coordinator's";
  ASSERT_EQ(said_to<wire::Finished>("c").size(), 1u);
  EXPECT_EQ(said_to<wire::Finished>("c")[0].reason, wire::FinishReason::kError);
  EXPECT_TRUE(said_to<wire::Finished>("d").empty());
  forget();
  submit("c", 2);
  leader->from_coordinator("c", wire::Heartbeat{1});
  EXPECT_EQ(open_sequences(), 2u) << "it goes on, and is no restarted one";
}

TEST_F(LeaderServing, CoordinatorsAreNotTakenWithoutLimit) {
  start(1);
  for (int i = 0; i < 2 * limits::kMaxCoordinators; ++i)
    hello(fmt::format("c{}", i), 1);
  take();
  EXPECT_EQ(to_coordinator.size(), static_cast<size_t>(limits::kMaxCoordinators));
}

TEST_F(LeaderServing, AnExpiredRequestIsToldSo) {
  start(1);
  wire::Submit late;
  late.request = 9;
  late.model = "m";
  late.tokens = {1};
  late.max_tokens = 1000;
  late.deadline_ms = 400;
  leader->from_coordinator("c", late);
  advance(500 * kMs, {0}, {"c"});
  const auto finished = said_to<wire::Finished>("c");
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].request, 9u);
  EXPECT_EQ(finished[0].reason, wire::FinishReason::kDeadline);
}

TEST_F(LeaderServing, HeartbeatsAndStatusGoOutByTheClock) {
  make(2);
  serve(2);
  hello("c", 1);
  forget();
  leader->tick();
  EXPECT_TRUE(said_to_rank<wire::Heartbeat>(1).empty());
  EXPECT_TRUE(said_to<wire::Status>("c").empty());
  clock.advance(limits::kHeartbeatNs);
  leader->tick();
  EXPECT_EQ(said_to_rank<wire::Heartbeat>(1).size(), 1u);
  EXPECT_EQ(said_to<wire::Status>("c").size(), 1u);
}

TEST_F(LeaderServing, ChangedLoadIsToldBeforeTheNextHeartbeatButNotAtEveryStep) {
  start(2);
  forget();
  clock.advance(limits::kStatusNs);
  leader->tick();
  ASSERT_EQ(said_to<wire::Status>("c").size(), 1u);
  EXPECT_EQ(said_to<wire::Status>("c")[0].running, 1u);
  submit("c", 2);
  leader->tick();
  EXPECT_EQ(said_to<wire::Status>("c").size(), 1u) << "too soon";
  clock.advance(limits::kStatusNs);
  leader->tick();
  leader->tick();
  EXPECT_EQ(said_to<wire::Status>("c").size(), 2u);
}

TEST_F(LeaderServing, DrainFinishesWhatRunsAndTakesNothingMore) {
  start(1);
  leader->drain();
  EXPECT_FALSE(leader->drained());
  EXPECT_EQ(said_to<wire::Status>("c").back().state, wire::GroupState::kDraining);
  submit("c", 2);
  EXPECT_EQ(said_to<wire::Rejected>("c").size(), 1u);
  for (size_t next = 0; next < steps().size() && !leader->drained(); ++next)
    leader->from_rank(0, done_of(steps()[next]));
  EXPECT_TRUE(leader->drained());
  const auto finished = said_to<wire::Finished>("c");
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].reason, wire::FinishReason::kLength);
  EXPECT_EQ(finished[0].generated, 5u);
}

TEST_F(LeaderServing, AGroupThatIsLostWhileItDrainsIsDrained) {
  start(2);
  leader->drain();
  leader->from_rank(1, wire::Failed{1, 1, Error{Errc::kUnavailable, "gone", ""}});
  EXPECT_TRUE(leader->drained());
  clock.advance(limits::kReformDelayNs);
  for (uint32_t rank = 0; rank < 2; ++rank)
    leader->from_rank(rank, join_of(rank, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kDraining) << "it does not form again";
}

TEST_F(LeaderServing, LeaveEndsWhatIsOpenAndLateAnswersDoNoHarm) {
  start(2);
  const auto made = steps();
  leader->leave();
  EXPECT_EQ(said_to<wire::Finished>("c").at(0).reason, wire::FinishReason::kError);
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
  leader->from_rank(0, done_of(made[0]));
  leader->from_rank(1, done_of(made[0]));
  EXPECT_TRUE(said_to<wire::Tokens>("c").empty());
  EXPECT_TRUE(leader->drained());
}

TEST_F(LeaderServing, ARankThatWillStopLetsWhatIsOpenEnd) {
  start(2);
  leader->from_rank(1, wire::Drain{});
  EXPECT_EQ(leader->state(), wire::GroupState::kDraining);
  submit("c", 2);
  EXPECT_EQ(said_to<wire::Rejected>("c").size(), 1u) << "nothing new is taken";
  for (size_t next = 0; next < steps().size() && open_sequences() > 0; ++next) {
    leader->from_rank(0, done_of(steps()[next]));
    leader->from_rank(1, done_of(steps()[next]));
  }
  leader->tick();
  const auto finished = said_to<wire::Finished>("c");
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].reason, wire::FinishReason::kLength);
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting) << "for the rank to come back";
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
  clock.advance(limits::kReformDelayNs);
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, join_of(1, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
}

}  // namespace
}  // namespace krait::test
