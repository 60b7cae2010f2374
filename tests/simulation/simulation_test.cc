// Seeds of the simulation: 200, or 10,000 where KRAIT_TEST_LONG is set. `krait-simulation --seed N --trace` replays
// one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/simulation/simulation.h"

namespace krait::simulation {
namespace {

uint64_t seeds() {
  const char* longer = std::getenv("KRAIT_TEST_LONG");
  return longer != nullptr && *longer != '\0' ? 10'000 : 200;
}

TEST(Simulation, NoSeedBreaksAPromiseAndEveryKindOfTroubleOccurs) {
  std::map<std::string, int> seen;
  int failed = 0;
  for (uint64_t seed = 1; seed <= seeds() && failed < 5; ++seed) {
    Simulation simulation(seed, false);
    simulation.run();
    for (const auto& wrong : simulation.record().wrongs())
      ADD_FAILURE() << "seed " << seed << ": " << wrong;
    failed += simulation.record().wrongs().empty() ? 0 : 1;
    for (const auto& kind : simulation.record().seen())
      ++seen[kind];
  }
  for (const char* kind : {"answered",
                           "several choices answered",
                           "ended by a stop id",
                           "ended by max_tokens",
                           "prompt scored",
                           "client gone",
                           "coordinator drained",
                           "coordinator killed",
                           "leader killed",
                           "rank killed",
                           "shard stopped",
                           "process paused",
                           "load fails",
                           "connection cut",
                           "connection stalled",
                           "message lost",
                           "message doubled",
                           "message overtaken",
                           "error: deadline_exceeded",
                           "error: overloaded",
                           "error: unavailable",
                           "error: invalid_argument",
                           "group of 1",
                           "group of 2",
                           "group of 3",
                           "group of 4",
                           "group with pages",
                           "group without pages"}) {
    EXPECT_GT(seen[kind], 0) << kind << " never occurred";
  }
}

TEST(Simulation, ASeedReproducesARun) {
  for (const uint64_t seed : {3, 13, 52}) {
    const auto trace = [&] {
      Simulation simulation(seed, true);
      simulation.run();
      return simulation.record().lines();
    };
    const auto first = trace();
    EXPECT_GT(first.size(), 100u);
    EXPECT_EQ(first, trace()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace krait::simulation
