// What krait-bench says: the medians of repeated runs, as a table and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "deploy/tools/bench_phases.h"
#include "deploy/tools/roofline.h"

namespace krait::tools {

/// What was measured, and on what.
struct BenchSubject final {
  std::string model;
  std::string dtype;
  std::string path;         // of instructions
  std::string collectives;  // codec of hidden sums
  int ranks = 1;
  int threads = 1;
  int64_t repeat = 1;
  double max_step_ms = 0;
  PhaseSizes sizes;
  int64_t weight_bytes = 0;  // of all ranks
  int64_t state_bytes = 0;   // of one sequence
  int64_t max_rows = 0;      // of a step
};

/// Figures of one run of a phase; 0: there is none of that kind.
struct PhaseFigures final {
  double prompt_rate = 0;     // tokens a second
  double generated_rate = 0;  // tokens a second
  double first_token_ms = 0;
  double between_p50_ms = 0;
  double between_p99_ms = 0;
  double rows_per_step = 0;
  double reading_share = 0;      // the time that reading needs at the peak, of the time that passed
  double multiplying_share = 0;  // the same of multiply-adds
  double roofline_share = 0;     // the same of whichever is more in each step
  double cores_used = 0;         // by all threads; fewer than there are where they wait, or others use the machine
  double tokens_per_core_s = 0;  // by a second of processor time: steady where others use the machine too
  Peaks peaks;                   // beside this run
};
PhaseFigures figures_of(const PhaseRun& run, const Roofline& roofline, const Peaks& peaks);

/// Where a step's time went, in milliseconds; a mean of steps and ranks.
struct PhaseProfile final {
  double step_ms = 0;  // from answer to answer
  double rows_per_step = 0;
  StepProfile step;  // in nanoseconds
};
PhaseProfile profile_of(const PhaseRun& run);

struct PhaseReport final {
  Phase phase;
  std::vector<PhaseFigures> runs;
  PhaseProfile profile;
};

std::string table_of(const BenchSubject& subject, const std::vector<PhaseReport>& phases);
nlohmann::ordered_json json_of(const BenchSubject& subject, const std::vector<PhaseReport>& phases);

}  // namespace krait::tools
