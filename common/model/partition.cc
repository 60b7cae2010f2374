#include "common/model/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/units.h"

namespace krait {
namespace {

constexpr int64_t kBlock = 16;  // channels or vocabulary entries that stay together where ranges are not equal

std::vector<Range> equal_ranges(int64_t count, int world) {
  std::vector<Range> ranges;
  for (int64_t rank = 0; rank < world; ++rank)
    ranges.push_back({count / world * rank, count / world * (rank + 1)});
  return ranges;
}

/// Blocks of kBlock (the last may be short), dealt so that each boundary lies nearest to its share of the blocks.
std::vector<Range> block_ranges(int64_t count, int world, std::span<const double> shares) {
  const int64_t blocks = ceil_div(count, kBlock);
  double total = 0;
  for (const double share : shares)
    total += share;
  std::vector<Range> ranges;
  int64_t begin = 0;
  double before = 0;
  for (int rank = 0; rank < world; ++rank) {
    int64_t block = blocks * (rank + 1) / world;
    if (!shares.empty()) {
      before += shares[static_cast<size_t>(rank)];
      block = std::llround(static_cast<double>(blocks) * (before / total));
    }
    // The last boundary is the end whatever rounding did to the sum.
    const int64_t end = rank + 1 == world ? count : std::clamp(block * kBlock, begin, count);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

/// Whether these ranges keep the bits of world = 1: a power of two of equal pieces of a multiple of eight.
bool keeps_bits(int64_t count, int world, const std::vector<Range>& ranges) {
  return limits::kLeaves % world == 0 && count % limits::kLeaves == 0 && ranges == equal_ranges(count, world);
}

int64_t unit_count(const ModelConfig& config, Unit unit) {
  switch (unit) {
    case Unit::kChannel:
      return config.inner_size;
    case Unit::kVocab:
      return config.vocab_size;
  }
  return 0;
}

Status check_ranges(const std::vector<Range>& ranges, int world, int64_t count, std::string_view unit) {
  const auto bad = [&](std::string_view what) {
    return Error{Errc::kProtocol, fmt::format("partition: {} of {} {}", unit, count, what), "partition"};
  };
  if (ranges.size() != static_cast<size_t>(world)) return bad(fmt::format("in {} ranges", ranges.size()));
  int64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at || range.end < range.begin || range.end > count) {
      return bad(fmt::format("with a range {}..{} after {}", range.begin, range.end, at));
    }
    at = range.end;
  }
  if (at != count) return bad(fmt::format("end at {}", at));
  return {};
}

}  // namespace

Result<Partition> make_partition(const ModelConfig& config, int world, std::span<const double> shares) {
  if (world < 1 || world > limits::kMaxWorld) {
    return Error{Errc::kInvalidArgument, fmt::format("{} ranks, not 1..{}", world, limits::kMaxWorld), "world"};
  }
  if (!shares.empty() && shares.size() != static_cast<size_t>(world)) {
    return Error{Errc::kInvalidArgument, fmt::format("{} shares for {} ranks", shares.size(), world), "shares"};
  }
  const bool positive = std::all_of(shares.begin(), shares.end(), [](double share) {
    return std::isfinite(share) && share >= limits::kMinShare && share <= limits::kMaxShare;
  });
  if (!positive) {
    return Error{Errc::kInvalidArgument, fmt::format("a share is not in {}..{}", limits::kMinShare, limits::kMaxShare),
                 "shares"};
  }
  const bool even = std::all_of(shares.begin(), shares.end(), [&](double share) { return share == shares.front(); });
  if (even) shares = {};

  Partition partition{.world = world};
  const int64_t channels = config.inner_size;
  const bool divides = limits::kLeaves % world == 0 && channels % limits::kLeaves == 0;
  auto& channel_ranges = partition.ranges[static_cast<size_t>(Unit::kChannel)];
  channel_ranges = even && divides ? equal_ranges(channels, world) : block_ranges(channels, world, shares);
  partition.ranges[static_cast<size_t>(Unit::kVocab)] = block_ranges(config.vocab_size, world, shares);
  partition.aligned = keeps_bits(channels, world, channel_ranges);
  return partition;
}

Status check_partition(const ModelConfig& config, const Partition& partition) {
  if (partition.world < 1 || partition.world > limits::kMaxWorld) {
    return Error{Errc::kProtocol, fmt::format("partition: {} ranks", partition.world), "partition"};
  }
  const auto check = [&](Unit unit, std::string_view name) {
    return check_ranges(partition.of(unit), partition.world, unit_count(config, unit), name);
  };
  RETURN_IF_ERROR(check(Unit::kChannel, "channels"));
  RETURN_IF_ERROR(check(Unit::kVocab, "vocabulary"));
  if (partition.aligned != keeps_bits(config.inner_size, partition.world, partition.of(Unit::kChannel))) {
    return Error{Errc::kProtocol, "partition: 'aligned' is not what its ranges are", "partition"};
  }
  return {};
}

std::vector<Range> local_parts(const TensorSpec& spec, const Partition& partition, int rank) {
  CHECK(rank >= 0 && rank < partition.world);
  const int64_t extent = spec.shape.empty() ? 1 : spec.shape[static_cast<size_t>(spec.cut.axis)];
  if (spec.cut.whole()) return {{0, extent}};
  std::vector<Range> parts;
  int64_t start = 0;
  for (const Segment& segment : spec.cut.segments) {
    Range units{0, segment.count};
    if (segment.kind == Segment::Kind::kCut) units = partition.range(segment.unit, rank);
    CHECK_LE(units.end, segment.count);
    if (units.size() > 0) parts.push_back({start + units.begin * segment.width, start + units.end * segment.width});
    start += segment.elements();
  }
  CHECK_EQ(start, extent);
  return parts;
}

Shape local_shape(const TensorSpec& spec, const Partition& partition, int rank) {
  Shape shape = spec.shape;
  if (spec.cut.whole()) return shape;
  int64_t extent = 0;
  for (const Range& part : local_parts(spec, partition, rank))
    extent += part.size();
  shape[static_cast<size_t>(spec.cut.axis)] = extent;
  return shape;
}

}  // namespace krait
