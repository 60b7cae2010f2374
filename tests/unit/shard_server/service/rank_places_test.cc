// Who speaks for a rank when two processes say that they are it.
#include "shard_server/service/rank_places.h"

#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::test {
namespace {

using shard::RankPeer;
using shard::RankPlaces;
using Verdict = RankPlaces::Verdict;

constexpr RankPeer kFirst{1, 100}, kSecond{1, 200}, kThird{1, 300}, kOther{2, 400};

struct Places : testing::Test {
  ManualClock clock{1};
  RankPlaces places{clock};

  /// Both speak every heartbeat; the second's last verdict.
  Verdict both_speak(int times) {
    Verdict verdict = Verdict::kHolds;
    for (int i = 0; i < times; ++i) {
      clock.advance(limits::kHeartbeatNs);
      EXPECT_EQ(places.heard(kFirst), Verdict::kHolds);
      verdict = places.heard(kSecond);
    }
    return verdict;
  }
};

TEST_F(Places, TheFirstThatComesHoldsThePlaceOfItsOwnRankOnly) {
  EXPECT_FALSE(places.holder(1));
  EXPECT_EQ(places.heard(kFirst), Verdict::kHolds);
  EXPECT_EQ(places.heard(kOther), Verdict::kHolds);
  EXPECT_EQ(places.holder(1), kFirst);
  EXPECT_EQ(places.holder(2), kOther);
}

TEST_F(Places, ASecondOneIsRefusedOnceTheFirstIsKnownToLive) {
  places.heard(kFirst);
  EXPECT_EQ(places.heard(kSecond), Verdict::kWaits) << "the first may be dead";
  EXPECT_EQ(both_speak(2), Verdict::kRefused);
  EXPECT_EQ(places.holder(1), kFirst);
}

TEST_F(Places, WhatTheFirstSaidJustBeforeItDiedDoesNotRefuseItsSuccessor) {
  places.heard(kFirst);
  EXPECT_EQ(places.heard(kSecond), Verdict::kWaits);
  clock.advance(20 * kMs);
  EXPECT_EQ(places.heard(kFirst), Verdict::kHolds) << "read late";
  for (int i = 0; i < 5; ++i) {
    clock.advance(limits::kHeartbeatNs);
    EXPECT_EQ(places.heard(kSecond), Verdict::kWaits);
  }
  places.lost(1);
  EXPECT_EQ(places.heard(kSecond), Verdict::kHolds);
  EXPECT_EQ(places.holder(1), kSecond);
}

TEST_F(Places, AHolderThatIsSilentLosesItsPlaceAndComesBackAsTheSecond) {
  places.heard(kFirst);
  places.heard(kSecond);
  clock.advance(limits::kPeerTimeoutNs);
  EXPECT_EQ(places.heard(kSecond), Verdict::kWaits);
  clock.advance(1);
  EXPECT_EQ(places.heard(kSecond), Verdict::kHolds);
  EXPECT_EQ(places.heard(kFirst), Verdict::kWaits) << "it was stopped and goes on";
  clock.advance(limits::kHeartbeatNs);
  EXPECT_EQ(places.heard(kSecond), Verdict::kHolds);
  EXPECT_EQ(places.heard(kFirst), Verdict::kRefused);
}

TEST_F(Places, ALateWordOfTheHolderDoesNotGiveAFreedPlaceToTwo) {
  places.heard(kFirst);
  places.lost(1);
  EXPECT_EQ(places.heard(kSecond), Verdict::kHolds);
  EXPECT_EQ(places.heard(kFirst), Verdict::kWaits);
}

TEST_F(Places, RivalsAreForgottenBeforeTheyAreMany) {
  places.heard(kFirst);
  for (uint64_t i = 0; i < 10'000; ++i)
    EXPECT_EQ(places.heard({1, 1000 + i}), Verdict::kWaits);
  EXPECT_EQ(both_speak(2), Verdict::kRefused);
}

TEST_F(Places, NamesAreReadBackAndNothingElseIs) {
  const RankPeer peer{7, 0x00ab'cdef'0123'4567};
  EXPECT_EQ(shard::rank_of_peer(shard::peer_name(peer)), peer);
  for (const char* name : {"", "rank-", "rank-1", "rank-1-", "rank-x-1", "rank-1-g", "rank-1-1 ", "rank--1-1",
                           "rank-8-1", "rank-99999999999999999999-1", "rank-1-11111111111111111", "coordinator-1-1"}) {
    EXPECT_FALSE(shard::rank_of_peer(name)) << name;
  }
}

}  // namespace
}  // namespace krait::test
