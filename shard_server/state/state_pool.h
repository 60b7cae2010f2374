// The recurrent states of all sequences on this rank: one slot each, in float32, laid out as the kernels read them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "kernels/device/arena.h"

namespace krait::shard {

/// Where one layer's states lie within a slot, in floats from the slot's start.
struct LayerState final {
  int64_t conv_offset = 0;  // conv_state [K - 1][C16], oldest first
  int64_t ssm_offset = 0;   // ssm_state, blocked [C16 / 16][N][16]
};

/// Blocks reserve their places while they are built; then the pool is allocated once for all slots.
class StatePool final {
 public:
  /// Room for one layer's states of that many floats. Before allocate().
  LayerState reserve(int64_t conv_floats, int64_t ssm_floats);

  /// Bytes of one slot with what is reserved so far.
  int64_t slot_bytes() const { return slot_floats_ * static_cast<int64_t>(sizeof(float)); }

  /// Maps `slots` slots. Pages come into memory when a slot is first used. Error: kResourceExhausted.
  Status allocate(int64_t slots);

  /// What was reserved, in order: one entry a layer that has states.
  const std::vector<LayerState>& layers() const { return layers_; }

  int64_t slots() const { return slots_; }
  /// Floats between neighbouring slots.
  int64_t slot_stride() const { return slot_floats_; }
  /// Slot 0; slot s begins slot_stride() * s floats further on.
  float* base() const { return base_; }
  float* slot(int64_t index) const { return base_ + index * slot_floats_; }

 private:
  kernels::Arena arena_{"the states of sequences (fewer --slots need less)"};
  std::vector<LayerState> layers_;
  int64_t slot_floats_ = 0;
  int64_t slots_ = 0;
  float* base_ = nullptr;
};

}  // namespace krait::shard
