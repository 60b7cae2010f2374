// The ranks of a group as engines on threads of the test, step by step: logits of any row, state of any slot.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "shard_server/engine/engine.h"

namespace krait::test {

struct EngineGroupOptions final {
  std::string model_dir;
  int world = 1;
  int threads = 1;
  DType dtype = DType::kF32;
  shard::SumCodecs codecs;  // of hidden sums
  uint32_t slots = 4;
  uint32_t max_rows = 0;
  int64_t overlap_rows = 0;
  bool whole_weights = false;  // of every rank
  uint32_t slot_pages = 32;    // of keys and values that a slot's sequence may use, in models that have some
  kernels::CpuPath path = kernels::best_cpu_path();
  std::vector<double> shares;
};

/// The state of one slot, whose sequence has read that many tokens, put together from the engines of all ranks.
shard::WholeState whole_state(std::span<const shard::Engine* const> engines, int32_t slot, int64_t tokens);

/// Throws std::runtime_error where something fails, so that the test fails and says why.
class EngineGroup final {
 public:
  explicit EngineGroup(const EngineGroupOptions& options);
  ~EngineGroup();

  /// Runs one step on all ranks; checks that their digests agree. Epoch and number are filled in.
  wire::StepDone step(wire::Step step);

  /// Keeps the logits of every row from now on (each row is then gathered whole): by row of the latest step.
  void keep_logits();
  const std::map<int32_t, std::vector<float>>& logits() const { return logits_; }

  /// Of the rank that has it, where ranks hold whole weights.
  shard::WholeState state(int32_t slot, int64_t tokens) const;
  /// What one rank's collectives have cost since the start, sub-groups included.
  collectives::Statistics statistics(int rank) const { return communicators_[static_cast<size_t>(rank)]->statistics(); }
  /// The pages of the sequence in a slot, in no order that a test should rely on; none where the model has none.
  std::vector<int32_t> pages(int32_t slot) const;
  const ModelConfig& config() const { return engines_[0]->config(); }
  int64_t weight_bytes(int rank) const { return engines_[static_cast<size_t>(rank)]->weight_bytes(); }
  std::string numerics_id() const { return engines_[0]->numerics_id(); }

 private:
  SteadyClock clock_;
  std::vector<std::unique_ptr<shard::Engine>> engines_;
  std::vector<std::shared_ptr<collectives::GroupCommunicators>> communicators_;
  std::map<int32_t, std::vector<float>> logits_;
  shard::Homes homes_;
  uint64_t next_step_ = 1;
  uint32_t slot_pages_ = 0;
};

/// One sequence run through an EngineGroup: prefill in chunks that `ranks` of whole weights share, then greedy or
/// sampled decoding.
struct SequenceResult final {
  std::vector<std::vector<float>> prompt_logits;  // [T][V], when logits are kept
  std::vector<std::vector<float>> decode_logits;  // of each generated token but the first, when kept
  std::vector<int32_t> tokens;
  shard::WholeState after_prompt;

  friend bool operator==(const SequenceResult&, const SequenceResult&) = default;
};
/// Greedy, and every token of the prompt scored, so that each row has its logits computed.
wire::SamplingParams scored_greedily();
SequenceResult run_sequence(EngineGroup& group, int32_t slot, const std::vector<int32_t>& prompt, int64_t chunk,
                            uint32_t generate, const wire::SamplingParams& sampling, uint32_t ranks = 1);

}  // namespace krait::test
