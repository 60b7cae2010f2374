#include "shard_server/blocks/channel_layout.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "kernels/scan/selective_scan.h"

namespace krait::shard {

PartSum part_sum(const ModelConfig& config, const Partition& partition, Unit unit) {
  const int64_t width = config.unit(unit).count / config.unit(unit).parts;
  const auto& ranges = partition.of(unit);
  const bool whole_parts =
      std::all_of(ranges.begin(), ranges.end(), [&](const Range& range) { return range.begin % width == 0; });
  if (whole_parts) return PartSum::kNobody;
  return sub_group(config, partition, 0) ? PartSum::kSubGroup : PartSum::kEveryRank;
}

int64_t ChannelPart::padded() const {
  return kernels::padded_channels(channels);
}

ChannelLayout::ChannelLayout(Range local, int64_t total, int64_t pieces) : channels_(local.size()) {
  CHECK_EQ(total % pieces, 0);
  const int64_t width = total / pieces;
  for (int64_t at = local.begin; at < local.end;) {
    const int64_t piece = at / width;
    const int64_t end = std::min(local.end, (piece + 1) * width);
    parts_.push_back({.piece = piece, .first = at - local.begin, .channels = end - at, .offset = padded_});
    for (int64_t c = 0; c < end - at; ++c)
      places_.push_back(padded_ + c);
    padded_ += parts_.back().padded();
    at = end;
  }
}

bool ChannelLayout::dense() const {
  return parts_.empty() || parts_.back().offset == parts_.back().first;
}

void ChannelLayout::unblock(const float* blocked, int64_t state_size, float* plain) const {
  for (const ChannelPart& part : parts_) {
    kernels::from_blocked(blocked + part.offset * state_size, part.channels, state_size,
                          plain + part.first * state_size);
  }
}

void ChannelLayout::compact(kernels::Stream& stream, float* x, int64_t rows) const {
  if (dense()) return;
  stream.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* at = x + row * padded_;
      for (const ChannelPart& part : parts_)
        std::memmove(at + part.first, at + part.offset, static_cast<size_t>(part.channels) * sizeof(float));
    }
  });
}

}  // namespace krait::shard
