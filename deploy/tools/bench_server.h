// A group under the scheduler that leaders run: requests go in, and every step that ran comes out with its time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "deploy/tools/local_group.h"
#include "kernels/device/kernel_times.h"
#include "shard_server/collectives/communicator.h"
#include "shard_server/scheduler/scheduler.h"

namespace krait::tools {

/// Where the time of one step went, a mean of the ranks.
struct StepProfile final {
  double total_ns = 0;  // of the engine
  std::array<double, kernels::kKernelKinds> kernel_ns{};
  std::array<double, collectives::kOpKinds> collective_ns{};  // without waiting
  std::array<double, collectives::kOpKinds> wait_ns{};        // for the latest peer
  double sent_bytes = 0;                                      // by collectives, to each other rank that needs them
};

struct StepRecord final {
  int64_t decode_rows = 0;
  int64_t prefill_rows = 0;
  int64_t runs = 0;          // states read and written
  int64_t sampled_rows = 0;  // through lm_head
  int64_t read_tokens = 0;   // keys and values that attention reads, over all runs
  int64_t done_ns = 0;       // when its answers were there
  std::optional<StepProfile> profile;
};

/// A sequence that ended; times from its submission on.
struct SequenceTimes final {
  uint64_t request = 0;
  double first_token_ms = 0;
};

class BenchServer final {
 public:
  BenchServer(LocalGroup& group, double max_step_ms, const Clock& clock);

  /// One more sequence, greedy, without stop tokens; the number that cancel() knows it by. Sequences with one prompt
  /// that are submitted together read it once.
  Result<uint64_t> submit(std::vector<int32_t> tokens, uint32_t max_tokens);
  void cancel(uint64_t request);

  /// Plans what may be planned and waits for the oldest step; nothing where there is no work.
  Result<std::optional<StepRecord>> turn();
  /// Turns until there is no work.
  Status finish();

  uint32_t running() const { return scheduler_.running(); }
  uint32_t waiting() const { return scheduler_.waiting(); }
  /// Sequences that ended by themselves since the last call.
  std::vector<SequenceTimes> take_ended();

  /// Whether the records of steps have profiles from now on. Then one step runs at a time. Only while there is no work.
  void set_profiling(bool on);

 private:
  Status take_messages();
  StepProfile profile_of(const std::vector<wire::StepDone>& answers);

  LocalGroup& group_;
  const Clock& clock_;
  scheduler::Scheduler scheduler_;
  uint64_t next_request_ = 1;
  std::deque<StepRecord> in_flight_;
  std::vector<SequenceTimes> ended_;
  bool profiling_ = false;
  std::vector<kernels::KernelTimes> times_;          // by rank, since the last step
  std::vector<collectives::Statistics> statistics_;  // by rank, at the last step
};

}  // namespace krait::tools
