#include "shard_server/state/state_pool.h"

#include "common/base/check.h"
#include "common/base/units.h"

namespace krait::shard {
namespace {

constexpr int64_t kAlignFloats = 16;  // every state starts on a cache line

}  // namespace

LayerState StatePool::reserve(int64_t conv_floats, int64_t ssm_floats) {
  CHECK(base_ == nullptr);
  LayerState place;
  place.conv_offset = slot_floats_;
  slot_floats_ += round_up(conv_floats, kAlignFloats);
  place.ssm_offset = slot_floats_;
  slot_floats_ += round_up(ssm_floats, kAlignFloats);
  layers_.push_back(place);
  return place;
}

Status StatePool::allocate(int64_t slots) {
  CHECK(base_ == nullptr);
  CHECK_GT(slots, 0);
  ASSIGN_OR_RETURN(std::byte * bytes, arena_.allocate(slots * slot_bytes()));
  base_ = reinterpret_cast<float*>(bytes);
  slots_ = slots;
  return {};
}

}  // namespace krait::shard
