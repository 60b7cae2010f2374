// A batch as it is computed: whole, or as two parts whose sums over ranks travel by turns.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "shard_server/blocks/block.h"

namespace krait::shard {

/// Rows [first_row, first_row + batch.rows()) of the whole batch, numbered from 0.
struct BatchPart final {
  int64_t first_row = 0;
  Batch batch;
};

class BatchParts final {
 public:
  /// One part: all of it. `batch` stays the caller's, here and below.
  void keep_whole(const Batch& batch);
  /// Two parts, near the middle. A run may be cut: its second piece goes on from the slot that the first one writes, so
  /// parts must run in order, block by block. A run that writes nowhere stays whole.
  void halve(const Batch& batch);

  std::span<const BatchPart> all() const { return {parts_.data(), count_}; }

  static constexpr size_t kMost = 2;

 private:
  struct Pieces final {
    std::vector<kernels::Run> runs;
    std::vector<kernels::Tap> taps;
    std::vector<kernels::AttentionRun> attention;
  };
  void fill(size_t part, const Batch& batch, int64_t begin, int64_t end);

  std::array<BatchPart, kMost> parts_;
  std::array<Pieces, kMost> pieces_;
  size_t count_ = 0;
};

}  // namespace krait::shard
