// How a group comes to serve: joins, ranks that do not fit, forming, and forming again.
#include "shard_server/collectives/bootstrap.h"
#include "tests/unit/shard_server/service/leader_fixture.h"

namespace krait::test {
namespace {

class LeaderForming : public LeaderFixture {};

TEST_F(LeaderForming, EveryRankJoinsIsFormedLoadsAndServes) {
  make(3);
  leader->from_rank(0, join_of(0, 3));
  leader->from_rank(2, join_of(2, 3));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  EXPECT_TRUE(said_to_rank<wire::Form>(0).empty());
  leader->from_rank(1, join_of(1, 3));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto forms = said_to_rank<wire::Form>(rank);
    ASSERT_EQ(forms.size(), 1u);
    EXPECT_EQ(forms[0], said_to_rank<wire::Form>(0)[0]) << "all are told the same";
    EXPECT_EQ(forms[0].epoch, 1u);
    EXPECT_EQ(forms[0].world, 3u);
    EXPECT_EQ(forms[0].codec, "exact");
    EXPECT_EQ(collectives::Bootstrap::parse(forms[0].bootstrap).value().transport, "shared_memory");
    const auto loads = said_to_rank<wire::Load>(rank);
    ASSERT_EQ(loads.size(), 1u);
    EXPECT_EQ(loads[0].epoch, 1u);
  }
  leader->from_rank(0, ready_of(0, 9));
  leader->from_rank(1, ready_of(1, 7));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
  leader->from_rank(2, ready_of(2, 8));
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
  EXPECT_EQ(leader->status().slots, 7u) << "what every rank holds";
}

TEST_F(LeaderForming, TheLowestInstructionPathRuns) {
  make(2);
  auto low = join_of(1, 2);
  low.path = "portable";
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, low);
  EXPECT_EQ(said_to_rank<wire::Form>(0).at(0).path, "portable");
}

TEST_F(LeaderForming, AnUnknownPathIsTakenForTheLowest) {
  make(2);
  auto unknown = join_of(1, 2);
  unknown.path = "from the future";
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, unknown);
  EXPECT_EQ(said_to_rank<wire::Form>(0).at(0).path, "portable");
}

TEST_F(LeaderForming, ARankThatDoesNotFitIsTurnedAwayByName) {
  make(2);
  leader->from_rank(0, join_of(0, 2));
  std::vector<std::pair<wire::Join, std::string>> cases(5, {join_of(1, 2), ""});
  cases[0].first.version = "2.0";
  cases[0].second = "version";
  cases[1].first.fingerprint = "def";
  cases[1].second = "fingerprint";
  cases[2].first.dtype = "bf16";
  cases[2].second = "dtype";
  cases[3].first.world = 4;
  cases[3].second = "world";
  cases[4].first.protocol = 999;
  cases[4].second = "protocol";
  for (const auto& [join, word] : cases) {
    forget();
    leader->from_rank(1, join);
    EXPECT_EQ(leader->state(), wire::GroupState::kWaiting) << word;
    const auto refused = said_to_rank<wire::Failed>(1);
    ASSERT_EQ(refused.size(), 1u) << word;
    EXPECT_NE(refused[0].error.message.find(word), std::string::npos) << refused[0].error.message;
    EXPECT_TRUE(said_to_rank<wire::Failed>(0).empty());
  }
  leader->from_rank(1, join_of(1, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
}

TEST_F(LeaderForming, ARankBeyondTheGroupIsTurnedAway) {
  make(2);
  leader->from_rank(3, join_of(3, 4));
  EXPECT_EQ(said_to_rank<wire::Failed>(3).size(), 1u);
  leader->from_rank(3, wire::Heartbeat{});
  leader->from_rank(3, ready_of(3));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
}

TEST_F(LeaderForming, RanksThatWouldComputeOtherwiseDoNotServe) {
  make(2);
  for (uint32_t rank = 0; rank < 2; ++rank)
    leader->from_rank(rank, join_of(rank, 2));
  leader->from_rank(0, ready_of(0));
  auto other = ready_of(1);
  other.numerics_id = "other";
  leader->from_rank(1, other);
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
  EXPECT_EQ(aborts.size(), 1u);
}

TEST_F(LeaderForming, WhatIsOfAnOldEpochIsOldNews) {
  make(1);
  leader->from_rank(0, join_of(0, 1));
  auto old = ready_of(0);
  old.epoch = 99;
  leader->from_rank(0, old);
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
  leader->from_rank(0, wire::Failed{99, 0, {}});
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
  leader->from_rank(0, ready_of(0));
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
  leader->from_rank(0, wire::Failed{0, 0, {}});
  EXPECT_EQ(leader->state(), wire::GroupState::kServing);
}

TEST_F(LeaderForming, AFailureWhileNothingIsFormedChangesNothing) {
  make(2);
  leader->from_rank(1, join_of(1, 2));
  leader->from_rank(1, wire::Failed{0, 1, {}});
  EXPECT_EQ(leader->stats().groups_lost, 0u);
  leader->from_rank(0, join_of(0, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
}

TEST_F(LeaderForming, AModelThatCannotBeLoadedIsNotTriedInATightLoop) {
  make(1);
  leader->from_rank(0, join_of(0, 1));
  leader->from_rank(0, wire::Failed{epochs, 0, Error{Errc::kResourceExhausted, "no memory", ""}});
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  EXPECT_NE(leader->status().detail.find("no memory"), std::string::npos);
  for (int i = 0; i < 5; ++i)
    leader->from_rank(0, join_of(0, 1));
  leader->tick();
  EXPECT_EQ(leader->stats().epochs, 1u);
  clock.advance(limits::kReformDelayNs);
  leader->from_rank(0, join_of(0, 1));
  EXPECT_EQ(leader->stats().epochs, 2u);
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
}

TEST_F(LeaderForming, ARankThatDiedWhileOthersWereAwaitedHasToComeAgain) {
  make(2);
  leader->from_rank(1, join_of(1, 2));
  clock.advance(limits::kPeerTimeoutNs + 1);
  leader->tick();
  EXPECT_FALSE(leader->status().ranks.at(1).joined);
  leader->from_rank(0, join_of(0, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  leader->from_rank(1, join_of(1, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
}

TEST_F(LeaderForming, ARankThatWasRestartedMakesTheGroupFormAnew) {
  make(2);
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, join_of(1, 2));
  leader->from_rank(1, join_of(1, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading) << "its own Join, sent twice";
  leader->from_rank(0, ready_of(0));
  leader->from_rank(1, ready_of(1));
  ASSERT_EQ(leader->state(), wire::GroupState::kServing);
  auto again = join_of(1, 2);
  again.incarnation = 5;
  leader->from_rank(1, again);
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  clock.advance(limits::kReformDelayNs);
  leader->from_rank(0, join_of(0, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kLoading);
  const auto forms = said_to_rank<wire::Form>(1);
  EXPECT_EQ(forms.back().epoch, 2u);
}

TEST_F(LeaderForming, ARankThatLeftAndJoinsAgainMakesTheGroupFormAnew) {
  // The leader was silent for a while, the rank left, and now both speak again: the rank holds nothing any more.
  make(2);
  serve(2);
  leader->from_rank(1, join_of(1, 2));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  take();
  EXPECT_EQ(aborts.size(), 1u);
}

TEST_F(LeaderForming, ARankThatIsToStopWhileItLoadsLeavesNoGroupBehindThatServes) {
  make(2);
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, join_of(1, 2));
  ASSERT_EQ(leader->state(), wire::GroupState::kLoading);
  leader->from_rank(1, wire::Drain{});
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
  EXPECT_NE(leader->status().detail.find("rank 1 is shutting down"), std::string::npos) << leader->status().detail;
  leader->from_rank(1, wire::Drain{});
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting) << "said again before it heard Leave";
}

TEST_F(LeaderForming, ARankThatBelongsToAnEarlierLeaderIsToldToLeave) {
  // This leader has just started; the rank takes its heartbeats for those of the one before, and would never join.
  make(2);
  leader->from_rank(1, wire::Heartbeat{1001});
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u);
  leader->from_rank(1, join_of(1, 2));
  leader->from_rank(1, wire::Heartbeat{1001});
  EXPECT_EQ(said_to_rank<wire::Leave>(1).size(), 1u) << "it has joined";
}

TEST_F(LeaderForming, ARankWhoseProcessIsGoneFreesItsPlaceAtOnce) {
  make(2);
  leader->from_rank(1, join_of(1, 2));
  leader->lose_rank(1, "cannot be reached");
  EXPECT_FALSE(leader->status().ranks.at(1).joined);
  EXPECT_EQ(leader->stats().groups_lost, 0u) << "there was no group yet";
  serve(2);
  leader->lose_rank(1, "cannot be reached");
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
  EXPECT_EQ(leader->status().detail, "rank 1 cannot be reached; waiting for rank 0, 1");
  leader->lose_rank(1, "cannot be reached");
  leader->lose_rank(7, "is none of ours");
  EXPECT_EQ(leader->stats().groups_lost, 1u);
}

TEST_F(LeaderForming, WhoIsMissingIsSaid) {
  make(3);
  leader->from_rank(0, join_of(0, 3));
  EXPECT_EQ(leader->status().detail, "waiting for rank 1, 2");
}

TEST_F(LeaderForming, TheAgeOfARanksLastWordDecidesAndNotThatItSpeaksAgain) {
  // Nobody called tick() meanwhile: it was the leader that did not run, and the ranks have left a silent leader.
  for (const uint32_t first_to_speak : {0u, 1u}) {
    make(2);
    serve(2);
    hello("c", 1);
    clock.advance(limits::kPeerTimeoutNs + 1);
    leader->from_rank(first_to_speak, wire::Heartbeat{1000 + first_to_speak});
    EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
    forget();
    hello("c", 1);
    EXPECT_NE(said_to<wire::Status>("c").at(0).state, wire::GroupState::kServing);
  }
}

TEST_F(LeaderForming, RanksWithoutSlotsDoNotServe) {
  make(2);
  leader->from_rank(0, join_of(0, 2));
  leader->from_rank(1, join_of(1, 2));
  leader->from_rank(0, ready_of(0));
  leader->from_rank(1, ready_of(1, 0));
  EXPECT_EQ(leader->state(), wire::GroupState::kWaiting);
}

TEST_F(LeaderForming, StatusSaysWhatThereIs) {
  make(2);
  auto status = leader->status();
  EXPECT_EQ(status.state, wire::GroupState::kWaiting);
  EXPECT_EQ(status.epoch, 0u);
  EXPECT_FALSE(status.detail.empty());
  serve(2);
  hello("c", 1);
  submit("c", 1);
  status = leader->status();
  EXPECT_EQ(status.state, wire::GroupState::kServing);
  EXPECT_EQ(status.incarnation, 77u);
  EXPECT_EQ(status.epoch, 1u);
  EXPECT_EQ(status.model, "m");
  EXPECT_EQ(status.fingerprint, "abc");
  EXPECT_EQ(status.numerics_id, "numerics");
  EXPECT_EQ(status.slots, 4u);
  EXPECT_EQ(status.running, 1u);
  EXPECT_EQ(status.waiting, 0u);
  EXPECT_EQ(status.max_queue, static_cast<uint32_t>(limits::kDefaultMaxQueue));
  EXPECT_TRUE(status.detail.empty());
  ASSERT_EQ(status.ranks.size(), 2u);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(status.ranks[rank], (wire::RankStatus{rank, 4000 + rank, true, true, 9000 + rank}));
  }
}

}  // namespace
}  // namespace krait::test
