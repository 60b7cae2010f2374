// One rank's model: built once from a checkpoint, then one step after another. Single-threaded towards its caller; the
// stream's threads and the peers' ranks are inside.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/model/model_plan.h"
#include "common/model/partition.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "kernels/device/arena.h"
#include "kernels/device/stream.h"
#include "shard_server/blocks/block.h"
#include "shard_server/blocks/lm_head.h"
#include "shard_server/collectives/group_communicators.h"
#include "shard_server/engine/batch_parts.h"
#include "shard_server/engine/sampler.h"
#include "shard_server/engine/sequence_table.h"
#include "shard_server/engine/sum_codecs.h"
#include "shard_server/state/homes.h"
#include "shard_server/state/state_pool.h"

namespace krait::shard {

/// What a block of a step has left, equal on all ranks: the residual stream, and what a shared transformer hands on to
/// the mixer after it (empty in models without them), both [rows][hidden].
using BlockTap = std::function<void(size_t block, std::span<const float> h, std::span<const float> side)>;

struct EngineOptions final {
  int rank = 0;  // of the partition
  Partition partition;
  Homes homes;                     // of ranks that hold the whole model each
  DType dtype = DType::kF32;       // of matrices, as weight_type_name() knows them
  SumCodecs codecs;                // of hidden sums
  uint32_t slots = 0;              // 0: as many as `state_memory_bytes` holds, at most limits::kDefaultMaxSlots
  uint32_t kv_pages = 0;           // of hybrids; 0: as many as the rest of that memory holds
  int64_t state_memory_bytes = 0;  // for slots == 0 and kv_pages == 0
  uint32_t max_rows = 0;           // of a step; 0: as many as fit a fixed amount of buffer memory
  // Steps of at least so many rows run as two halves: the sums of one travel while the other is computed. 0: never.
  // Equal on all ranks.
  int64_t overlap_rows = 0;
  kernels::StreamOptions stream;
};

/// Where one block's states lie within a slot.
struct StateRange final {
  int64_t first = 0;
  int64_t floats = 0;
};

class Engine final {
 public:
  /// Reads the rank's slices, allocates states and buffers. Errors: kCorrupt where a file of the checkpoint was written
  /// to or cut short since it was opened (file named), kIo, kResourceExhausted.
  static Result<std::unique_ptr<Engine>> load(std::shared_ptr<const Checkpoint> checkpoint,
                                              const EngineOptions& options);

  /// Rows of a step that the buffers hold.
  uint32_t max_rows() const { return max_rows_; }
  uint32_t slots() const { return static_cast<uint32_t>(records_.size()); }
  uint32_t kv_pages() const { return static_cast<uint32_t>(kv_.pages()); }
  int64_t weight_bytes() const { return weights_.bytes(); }
  int64_t state_bytes() const { return states_.slots() * states_.slot_bytes() + kv_.pages() * kv_.page_bytes(); }
  int64_t nonfinite_weights() const { return nonfinite_weights_; }

  /// SumCodecs::name() of how this group adds; "exact" for a rank alone.
  std::string collective_plan() const;
  /// What the bits of the logits depend on, besides tokens; equal on all ranks. DESIGN's "numerics id".
  std::string numerics_id() const;

  /// Runs one step together with the other ranks. Errors: kProtocol for a step that breaks the contract of messages.h
  /// (nothing was changed), else those of the collectives and of reading the embedding's file (the engine is then
  /// unusable, as is the communicator).
  Result<wire::StepDone> step(const wire::Step& step, collectives::GroupCommunicators& communicators,
                              const Clock& clock);

  // For tests and measurements.
  /// Where the time of steps from now on goes is added to `times`; null: nobody looks. Between steps only.
  void time_kernels(kernels::KernelTimes* times) { stream_->time_kernels(times); }
  /// Of hidden sums from now on; the same on all ranks. Between steps only.
  void set_codecs(SumCodecs codecs) { codecs_ = std::move(codecs); }
  /// Called after each block with its index in the plan. Null: nobody looks. Between steps only.
  void set_block_tap(BlockTap tap) { block_tap_ = std::move(tap); }
  void set_logit_tap(LogitTap tap) { sampler_->set_tap(std::move(tap)); }
  /// This rank's part of the state in `slot`, whose sequence has read that many tokens.
  void export_state(int32_t slot, int64_t tokens, WholeState& whole) const;
  const ModelConfig& config() const { return checkpoint_->config(); }
  const Partition& partition() const { return partition_; }

 private:
  Engine() = default;
  Status validate(const wire::Step& step);
  bool writes_a_slot_twice(const wire::Step& step);
  Status validate_rows(const wire::Step& step) const;
  void lay_out(const wire::Step& step);
  bool is_here(const wire::StepRun& run) const { return homes_.here(run.sequence_slot); }
  bool has_pages(const wire::Step& step, const wire::StepRun& run) const;
  void choose_logit_rows(const wire::Step& step, wire::StepDone& done);
  BlockContext context(collectives::GroupCommunicators& communicators, int64_t first_row, PendingSum& sum);
  Status run_blocks(const Batch& batch, collectives::GroupCommunicators& communicators);
  Status run_shared(const wire::StepRun& run, collectives::GroupCommunicators& communicators);
  Status run_layer(const Block& block, int32_t in_slot, collectives::GroupCommunicators& communicators);
  void tap_block(size_t block, int64_t floats) const;
  void digest_rows(Digest& digest) const;
  Status allocate(const EngineOptions& options);

  std::shared_ptr<const Checkpoint> checkpoint_;
  Partition partition_;
  DType dtype_ = DType::kF32;
  SumCodecs codecs_;
  BlockTap block_tap_;
  int rank_ = 0;
  Homes homes_;
  kernels::Arena weights_{"the weights (more ranks share them, a smaller --dtype needs less)"};
  kernels::Arena buffers_{"the buffers of a step (fewer --slots make them smaller)"};
  StatePool states_;
  KvCache kv_;
  std::unique_ptr<kernels::Stream> stream_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<StateRange> block_states_;  // of each block
  std::unique_ptr<LmHead> head_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<SequenceRecord> records_;  // one a slot
  uint32_t max_rows_ = 0;
  int64_t overlap_rows_ = 0;
  int64_t nonfinite_weights_ = 0;

  // The current step's batch; capacity is kept from step to step.
  float* h_ = nullptr;      // [max_rows][H]
  float* first_ = nullptr;  // the same, of hybrids only
  float* side_ = nullptr;   // the same, of hybrids only
  float* sum_ = nullptr;    // [max_rows][sum_width]
  int64_t sum_width_ = 0;
  std::span<std::byte> scratch_;
  std::span<std::byte> gemm_workspace_;
  std::vector<bool> written_;  // by slot
  std::vector<int32_t> ids_;
  std::vector<kernels::Run> runs_;               // of this rank
  std::vector<const wire::StepRun*> run_steps_;  // what each of them is
  std::vector<kernels::Tap> taps_;
  std::vector<kernels::AttentionRun> attention_;
  BatchParts parts_;
  std::vector<LogitRow> logit_rows_;
};

}  // namespace krait::shard
