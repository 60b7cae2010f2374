// Faults planted into the scheduler (plant.py) are found: each by one of the seeds that find nothing in the sound one.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/simulation/simulation.h"

int krait_planted_fault = 0;  // read by the copies of the scheduler's sources

namespace krait::simulation {
namespace {

constexpr uint64_t kSeeds = 200;

/// The first seed that goes wrong; 0: none.
uint64_t first_wrong_seed(uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Simulation simulation(seed, false);
    simulation.run();
    if (!simulation.record().wrongs().empty()) return seed;
  }
  return 0;
}

class Plants : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { krait_planted_fault = 0; }
};

TEST_P(Plants, IsFoundWithinTwoHundredSeeds) {
  krait_planted_fault = GetParam();
  EXPECT_NE(first_wrong_seed(kSeeds), 0u) << "fault " << GetParam() << " of plant.py";
}

INSTANTIATE_TEST_SUITE_P(Faults, Plants, testing::Range(1, 7));

TEST(PlantedScheduler, TheCopyIsSoundWhileNoFaultIsOn) {
  EXPECT_EQ(first_wrong_seed(20), 0u);
}

}  // namespace
}  // namespace krait::simulation
