// krait-simulation: runs seeds, says which of them go wrong and how; replays one with a trace.
#include <chrono>
#include <cstdio>
#include <map>

#include "common/base/settings.h"
#include "common/base/version.h"
#include "tests/simulation/simulation.h"

namespace krait::simulation {
namespace {

struct Options final {
  int64_t first = 1;
  int64_t seeds = 200;
  int64_t seed = 0;
  bool trace = false;
};

/// Runs one seed; whether all is well.
bool run_one(int64_t seed, bool trace, std::map<std::string, int64_t>& seen) {
  Simulation simulation(static_cast<uint64_t>(seed), trace);
  simulation.run();
  const Record& record = simulation.record();
  for (const auto& line : record.lines())
    std::printf("%s\n", line.c_str());
  for (const auto& wrong : record.wrongs())
    std::printf("seed %ld: %s\n", seed, wrong.c_str());
  for (const auto& kind : record.seen())
    ++seen[kind];
  return record.wrongs().empty();
}

Status run_all(Options options) {
  if (options.seed != 0) {
    options.first = options.seed;
    options.seeds = 1;
  }
  std::map<std::string, int64_t> seen;
  int64_t failed = 0;
  const auto began = std::chrono::steady_clock::now();
  for (int64_t seed = options.first; seed < options.first + options.seeds; ++seed)
    failed += run_one(seed, options.trace, seen) ? 0 : 1;
  const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began);
  for (const auto& [kind, count] : seen)
    std::printf("  %6ld  %s\n", count, kind.c_str());
  std::printf("%ld seeds, %ld failed, %.2f ms a seed\n", options.seeds, failed,
              took.count() / static_cast<double>(options.seeds));
  if (failed == 0) return {};
  return Error{Errc::kInternal, fmt::format("{} of {} seeds went wrong", failed, options.seeds), ""};
}

int run(int argc, char** argv) {
  Options options;
  Settings settings("krait-simulation", "Runs simulated clusters with faults, each from a seed.", version());
  settings.add("first", options.first, "first seed", 1, INT64_MAX / 2);
  settings.add("seeds", options.seeds, "how many", 1, INT64_MAX / 2);
  settings.add("seed", options.seed, "this one only", 0, INT64_MAX / 2);
  settings.add_flag("trace", options.trace, "print every event");
  return run_program("krait-simulation", settings.parse(argc, argv), [&] { return run_all(options); });
}

}  // namespace
}  // namespace krait::simulation

int main(int argc, char** argv) {
  return krait::simulation::run(argc, argv);
}
