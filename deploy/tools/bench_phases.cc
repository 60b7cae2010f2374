#include "deploy/tools/bench_phases.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "deploy/tools/machine_peaks.h"

namespace krait::tools {
namespace {

constexpr int64_t kLeastRows = scheduler::StepCost::kMinPrefillRows;

std::vector<int32_t> random_prompt(const PhaseSizes& sizes, SplitMix64& random) {
  std::vector<int32_t> tokens(static_cast<size_t>(sizes.prompt));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random.below(static_cast<uint64_t>(sizes.vocabulary)));
  return tokens;
}

/// The records of some steps in a row, and the time when the step before them was done.
class Steps final {
 public:
  explicit Steps(int64_t begin_ns)
      : begin_ns_(begin_ns), last_ns_(begin_ns), begin_cores_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)) {}

  void add(const StepRecord& record) {
    run_.core_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin_cores_;
    if (record.decode_rows > 0) run_.between_ms.push_back(static_cast<double>(record.done_ns - last_ns_) / kMs);
    last_ns_ = record.done_ns;
    run_.steps.push_back(record);
  }
  PhaseRun done(const std::vector<SequenceTimes>& ended) {
    run_.seconds = static_cast<double>(last_ns_ - begin_ns_) / kSecond;
    for (const SequenceTimes& sequence : ended)
      run_.first_token_ms += sequence.first_token_ms / static_cast<double>(ended.size());
    return std::move(run_);
  }

 private:
  int64_t begin_ns_;
  int64_t last_ns_;
  double begin_cores_;
  PhaseRun run_;
};

Result<StepRecord> must_turn(BenchServer& server) {
  ASSIGN_OR_RETURN(const auto record, server.turn());
  if (!record) return Error{Errc::kInternal, "the load ended before it was measured", ""};
  return *record;
}

Result<PhaseRun> run_prefill(BenchServer& server, const PhaseSizes& sizes, SplitMix64& random, const Clock& clock) {
  Steps steps(clock.now_ns());
  RETURN_IF_ERROR(server.submit(random_prompt(sizes, random), 1));
  while (true) {
    ASSIGN_OR_RETURN(const auto record, server.turn());
    if (!record) return steps.done(server.take_ended());
    steps.add(*record);
  }
}

Result<PhaseRun> run_decode(BenchServer& server, int64_t batch, const PhaseSizes& sizes, SplitMix64& random) {
  const auto prompt = random_prompt(sizes, random);
  for (int64_t i = 0; i < batch; ++i)
    RETURN_IF_ERROR(server.submit(prompt, static_cast<uint32_t>(sizes.generate)));
  std::optional<Steps> steps;  // those after the first one in which all generate
  while (true) {
    ASSIGN_OR_RETURN(const auto record, server.turn());
    if (!record) break;
    const bool all = record->decode_rows == batch && record->prefill_rows == 0;
    if (all && steps) {
      steps->add(*record);
    } else if (all) {
      steps.emplace(record->done_ns);
    }
  }
  server.take_ended();
  if (!steps) return Error{Errc::kInvalidArgument, "all sequences never generate at once: more --generate", "generate"};
  return steps->done({});
}

Result<PhaseRun> run_mixed(BenchServer& server, int64_t batch, const PhaseSizes& sizes, SplitMix64& random) {
  const auto prompt = random_prompt(sizes, random);
  // More than there are steps until the prompts are read: each takes the least rows or more of them.
  const auto most_tokens = static_cast<uint32_t>(2 * (batch + kMixedPrompts * sizes.prompt / kLeastRows) + kLeastRows);
  std::vector<uint64_t> decoding;
  for (int64_t i = 0; i < batch; ++i) {
    ASSIGN_OR_RETURN(const uint64_t request, server.submit(prompt, most_tokens));
    decoding.push_back(request);
  }
  StepRecord record;
  while (record.decode_rows < batch) {
    ASSIGN_OR_RETURN(record, must_turn(server));
  }
  server.take_ended();
  Steps steps(record.done_ns);
  for (int i = 0; i < kMixedPrompts; ++i)
    RETURN_IF_ERROR(server.submit(random_prompt(sizes, random), 1));
  std::vector<SequenceTimes> ended;
  while (ended.size() < kMixedPrompts) {
    ASSIGN_OR_RETURN(record, must_turn(server));
    steps.add(record);
    for (const SequenceTimes& sequence : server.take_ended())
      ended.push_back(sequence);
  }
  for (const uint64_t request : decoding)
    server.cancel(request);
  RETURN_IF_ERROR(server.finish());
  return steps.done(ended);
}

}  // namespace

std::string_view load_name(Load load) {
  switch (load) {
    case Load::kPrefill:
      return "prefill";
    case Load::kDecode:
      return "decode";
    case Load::kMixed:
      return "mixed";
  }
  check_failed(__FILE__, __LINE__, "load", "unknown");
}

int64_t PhaseRun::prompt_tokens() const {
  return std::accumulate(steps.begin(), steps.end(), int64_t{0},
                         [](int64_t sum, const StepRecord& step) { return sum + step.prefill_rows; });
}

int64_t PhaseRun::generated_tokens() const {
  return std::accumulate(steps.begin(), steps.end(), int64_t{0},
                         [](int64_t sum, const StepRecord& step) { return sum + step.decode_rows; });
}

Result<PhaseRun> run_phase(BenchServer& server, const Phase& phase, const PhaseSizes& sizes, uint64_t seed,
                           const Clock& clock) {
  SplitMix64 random(seed);
  switch (phase.load) {
    case Load::kPrefill:
      return run_prefill(server, sizes, random, clock);
    case Load::kDecode:
      return run_decode(server, phase.batch, sizes, random);
    case Load::kMixed:
      return run_mixed(server, phase.batch, sizes, random);
  }
  check_failed(__FILE__, __LINE__, "load", "unknown");
}

}  // namespace krait::tools
