#include "shard_server/engine/batch_parts.h"

#include <algorithm>

namespace krait::shard {
namespace {

/// The row to cut at: the middle, unless that lies in a run that cannot be cut.
int64_t middle(const Batch& batch) {
  const int64_t row = batch.rows() / 2;
  for (const auto& run : batch.runs) {
    if (row <= run.row_begin || row >= run.row_begin + run.rows || run.out_slot >= 0) continue;
    return run.row_begin > 0 ? run.row_begin : run.row_begin + run.rows;
  }
  return row;
}

}  // namespace

void BatchParts::keep_whole(const Batch& batch) {
  parts_[0] = {0, batch};
  count_ = 1;
}

void BatchParts::halve(const Batch& batch) {
  const int64_t row = middle(batch);
  if (row == 0 || row == batch.rows()) return keep_whole(batch);
  fill(0, batch, 0, row);
  fill(1, batch, row, batch.rows());
  count_ = 2;
}

void BatchParts::fill(size_t part, const Batch& batch, int64_t begin, int64_t end) {
  Pieces& pieces = pieces_[part];
  pieces.runs.clear();
  pieces.taps.clear();
  pieces.attention.clear();
  for (size_t i = 0; i < batch.runs.size(); ++i) {
    const kernels::Run& run = batch.runs[i];
    const int64_t first = std::max<int64_t>(run.row_begin, begin);
    const int64_t last = std::min<int64_t>(run.row_begin + run.rows, end);
    if (first >= last) continue;
    kernels::Run& piece = pieces.runs.emplace_back(run);
    piece.row_begin = static_cast<int32_t>(first - begin);
    piece.rows = static_cast<int32_t>(last - first);
    if (first > run.row_begin) piece.in_slot = run.out_slot;
    if (batch.attention.empty()) continue;
    kernels::AttentionRun& attended = pieces.attention.emplace_back(batch.attention[i]);
    attended.row_begin = piece.row_begin;
    attended.rows = piece.rows;
    attended.position += first - run.row_begin;
  }
  for (const kernels::Tap& tap : batch.taps) {
    if (tap.row >= begin && tap.row < end) pieces.taps.push_back({static_cast<int32_t>(tap.row - begin), tap.slot});
  }
  parts_[part] = {begin,
                  {batch.ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), pieces.runs,
                   pieces.taps, pieces.attention}};
}

}  // namespace krait::shard
