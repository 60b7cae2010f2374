// The loads that krait-bench puts on a server, and what one run of each shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "deploy/tools/bench_server.h"
#include "deploy/tools/roofline.h"

namespace krait::tools {

enum class Load : uint8_t {
  kPrefill,  // one prompt, alone, to its first token
  kDecode,   // `batch` sequences with one prompt; measured while all of them generate and nothing else runs
  kMixed,    // `batch` sequences generate, and prompts come, kMixedPrompts of them at once
};
inline constexpr int kMixedPrompts = 3;
std::string_view load_name(Load load);

struct Phase final {
  Load load = Load::kPrefill;
  int64_t batch = 1;
};

struct PhaseSizes final {
  int64_t prompt = 512;
  int64_t generate = 128;
  int64_t vocabulary = 0;  // ids of prompts are below
};

/// The steps that count, from the first to the last, and what they did.
struct PhaseRun final {
  double seconds = 0;
  double core_seconds = 0;  // of all threads of this process meanwhile
  std::vector<StepRecord> steps;
  double first_token_ms = 0;       // the mean of those of prompts; 0: no prompt ended
  std::vector<double> between_ms;  // of steps with decode rows: the time since the step before
  int64_t prompt_tokens() const;
  int64_t generated_tokens() const;  // of decode rows
};

/// Puts the load on the server and takes it off again; it has no work before and after.
Result<PhaseRun> run_phase(BenchServer& server, const Phase& phase, const PhaseSizes& sizes, uint64_t seed,
                           const Clock& clock);

}  // namespace krait::tools
