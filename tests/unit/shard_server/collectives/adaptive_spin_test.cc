#include "shard_server/collectives/adaptive_spin.h"

#include <gtest/gtest.h>

namespace krait::collectives {
namespace {

/// Waits that sleep at once before the next one that spins.
int waits_without_spin(AdaptiveSpin& spin) {
  int waits = 0;
  while (!spin.next_spins())
    ++waits;
  return waits;
}

TEST(AdaptiveSpinTest, SpinsForAsLongAsThatEndsWell) {
  AdaptiveSpin spin(true);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(spin.next_spins());
    spin.spun(true);
  }
}

TEST(AdaptiveSpinTest, SpinsLessAndLessWhileTheyEndInVain) {
  AdaptiveSpin spin(true);
  for (const int expected : {0, 1, 3, 7, 15, 15, 15}) {
    EXPECT_EQ(waits_without_spin(spin), expected);
    spin.spun(false);
  }
  EXPECT_EQ(waits_without_spin(spin), limits::kMaxUnspunWaits);
  spin.spun(true);
  EXPECT_EQ(waits_without_spin(spin), 0);
  spin.spun(false);
  EXPECT_EQ(waits_without_spin(spin), 1) << "what was before the good one is forgotten";
}

TEST(AdaptiveSpinTest, NeverSpinsWhereRanksHaveNoCores) {
  AdaptiveSpin spin(false);
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(spin.next_spins());
}

}  // namespace
}  // namespace krait::collectives
