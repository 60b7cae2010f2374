// Keys and values of a hybrid's attention layers on this rank, in pages of kPageTokens tokens that sequences share out.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/arena.h"

namespace krait::shard {

/// Where one layer's keys and values lie within a page.
struct KvLayer final {
  int64_t offset = 0;  // floats from the page's start
  int64_t heads = 0;
  int64_t head_dim = 0;
};

/// Blocks reserve their places while they are built; then all pages are allocated at once. Who holds which page is the
/// scheduler's affair; a page holds the same tokens of all layers.
class KvCache final {
 public:
  /// Room for one layer. Before allocate().
  KvLayer reserve(int64_t heads, int64_t head_dim);

  /// Bytes of one page with what is reserved so far.
  int64_t page_bytes() const { return page_floats_ * static_cast<int64_t>(sizeof(float)); }

  /// Maps `pages` pages; memory comes when a page is first used. Error: kResourceExhausted.
  Status allocate(int64_t pages);

  int64_t pages() const { return pages_; }
  kernels::KvPages layer(const KvLayer& layer) const {
    return {
        .base = base_ + layer.offset, .page_stride = page_floats_, .heads = layer.heads, .head_dim = layer.head_dim};
  }

 private:
  kernels::Arena arena_{"keys and values (fewer --slots leave more)"};
  int64_t page_floats_ = 0;
  int64_t pages_ = 0;
  float* base_ = nullptr;
};

}  // namespace krait::shard
