#include "common/base/fair_room.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace krait {
namespace {

TEST(FairRoom, IsTheFirstComersUpToItsLimitAndInTheReserveTheModestOnes) {
  FairRoom room(80);  // and a reserve of ten
  const auto flood = room.take("flood", 80);
  ASSERT_TRUE(flood.has_value());
  EXPECT_FALSE(room.take("flood", 1).has_value());
  auto modest = room.take("modest", 4);
  ASSERT_TRUE(modest.has_value());
  EXPECT_FALSE(room.take("modest", 3).has_value()) << "it would hold more than what is left";
  EXPECT_TRUE(room.take("modest", 2).has_value());
  EXPECT_FALSE(room.take("newcomer", 7).has_value());
  modest.reset();
  EXPECT_TRUE(room.take("newcomer", 7).has_value());
}

TEST(FairRoom, WhatIsHeldGrowsAndShrinksAndGoesBack) {
  FairRoom room(80);
  {
    FairRoom::Hold hold = room.hold("a");
    EXPECT_TRUE(hold.resize(80));
    EXPECT_FALSE(hold.resize(81));
    EXPECT_FALSE(room.take("a", 1).has_value()) << "a growth that was refused took nothing";
    EXPECT_TRUE(hold.resize(79));
    EXPECT_TRUE(room.take("a", 1).has_value());
    FairRoom::Hold moved = std::move(hold);
    FairRoom::Hold other = room.hold("b");
    other = std::move(moved);
    EXPECT_FALSE(room.take("a", 2).has_value()) << "a part that has moved is held still";
    other = {};
    EXPECT_TRUE(room.take("a", 80).has_value());
  }
  EXPECT_TRUE(room.take("b", 80).has_value());
}

TEST(FairRoom, ThreadsTakeAndGiveBackWithoutLoss) {
  FairRoom room(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&room, t] {
      for (int i = 0; i < 2000; ++i) {
        auto hold = room.take(t % 2 == 0 ? "a" : "b", 100 + i % 7);
        if (hold) hold->resize(i % 50);
      }
    });
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_TRUE(room.take("c", 1000).has_value());
}

}  // namespace
}  // namespace krait
