// The forward pass as a list of blocks over one flat batch. A block is cut at its collectives and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/check.h"
#include "common/base/result.h"
#include "common/model/model_plan.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/stream.h"
#include "kernels/gemm/gemm.h"
#include "kernels/scan/runs.h"
#include "shard_server/collectives/communicator.h"
#include "shard_server/state/kv_cache.h"
#include "shard_server/state/state_pool.h"
#include "shard_server/state/whole_state.h"
#include "shard_server/weights/weight_loader.h"

namespace krait::shard {

/// The rows of one step: prefill chunks and decode rows together, in runs.
struct Batch final {
  std::span<const int32_t> ids;  // the input token of each row
  std::span<const kernels::Run> runs;
  std::span<const kernels::Tap> taps;                // sorted by row
  std::span<const kernels::AttentionRun> attention;  // the same runs with their positions and pages; of hybrids only

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

/// Buffers of one block while it runs; the next block reuses them all.
class Scratch final {
 public:
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}

  float* floats(int64_t count) {
    const int64_t bytes = bytes_of(count);
    CHECK_LE(used_ + bytes, static_cast<int64_t>(memory_.size()));
    auto* piece = reinterpret_cast<float*>(memory_.data() + used_);
    used_ += bytes;
    return piece;
  }
  static constexpr int64_t bytes_of(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

 private:
  std::span<std::byte> memory_;
  int64_t used_ = 0;
};

/// The sum over ranks that a block ends with. It travels between the block's start and complete, while other rows are
/// computed.
struct PendingSum final {
  float* rows = nullptr;                      // room for BlockNeeds::sum_width floats a row
  std::optional<collectives::Ticket> ticket;  // begun, not finished
};

/// What a block runs on. Rows are float32 and the same on every rank.
struct BlockContext final {
  kernels::Stream& stream;
  collectives::Communicator& communicator;
  collectives::Communicator& small_communicator;  // of all ranks, for sums that overtake those on their way
  collectives::Communicator* sub_communicator;    // of the rank's sub_group, where there is one
  const StatePool& states;
  const KvCache& kv;
  float* h;      // [rows][H]: the residual stream
  float* first;  // [rows][H]: the embeddings, kept for shared transformers; null where there are none
  float* side;   // [rows][H]: what a shared transformer hands to the mixer after it; null where there are none
  PendingSum& sum;
  bool sums_are_moving = false;                             // other rows' sums are on their way meanwhile
  std::span<std::byte> scratch;                             // as many bytes as the hungriest block asked for
  std::span<std::byte> gemm_workspace;                      // enough for every product of every block
  collectives::Codec codec = collectives::Codec::kFloat32;  // of hidden sums: those that go into the residual stream
};

/// A block's needs for a batch of `max_rows` rows.
struct BlockNeeds final {
  int64_t scratch_bytes = 0;
  int64_t gemm_workspace_bytes = 0;
  int64_t sum_width = 0;   // of PendingSum::rows
  bool side_rows = false;  // BlockContext::first and side
};

/// One slot's state on this rank, and where its sequence's keys and values lie.
struct SlotState final {
  const float* state = nullptr;
  const KvCache& kv;
  std::span<const int32_t> pages;
  int64_t tokens = 0;  // that it has read
};

class Block {
 public:
  virtual ~Block() = default;
  virtual BlockNeeds needs(int64_t max_rows) const = 0;
  /// Computes until nothing is left but what hangs on context.sum, which is then on its way, and updates the states of
  /// the batch's output slots. Other rows may start before these complete. Errors are those of the collectives.
  virtual Status start(const BlockContext& context, const Batch& batch) const = 0;
  /// Waits for context.sum and takes it in: context.h (or side) is then the block's result. After start, with the same
  /// arguments.
  virtual Status complete(const BlockContext& context, const Batch& batch) const;
  /// Writes this rank's part of its layer's state. Blocks without a state have nothing to write.
  virtual void export_state(const SlotState& slot, WholeState& whole) const;
};

/// What a block is built from.
struct BlockSource final {
  const ModelConfig& config;
  const BlockPlan& plan;
  const Checkpoint& checkpoint;
  WeightLoader& loader;
  StatePool& states;
  KvCache& kv;
};

/// Builds a block of blocks.def: reads its weights, reserves its states.
Result<std::unique_ptr<Block>> make_block(const BlockSource& source);

}  // namespace krait::shard
