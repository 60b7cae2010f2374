#include "common/model/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/base/units.h"

namespace krait {
namespace {

std::vector<Range> equal_ranges(int64_t count, int world) {
  std::vector<Range> ranges;
  for (int64_t rank = 0; rank < world; ++rank)
    ranges.push_back({count / world * rank, count / world * (rank + 1)});
  return ranges;
}

/// Blocks (the last may be short), dealt so that each boundary lies nearest to its share of the blocks.
std::vector<Range> block_ranges(const UnitConfig& unit, int world, std::span<const double> shares) {
  const int64_t blocks = ceil_div(unit.count, unit.block);
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
    const int64_t end = rank + 1 == world ? unit.count : std::clamp(block * unit.block, begin, unit.count);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

/// Whether equal ranges of this unit keep the bits of world = 1: the K that it cuts is a multiple of eight and falls
/// into a power of two of equal pieces; and where parts of it are summed for themselves, whole parts or equal pieces of
/// one.
bool divides(const UnitConfig& unit, int world) {
  if (limits::kLeaves % world != 0 || unit.count % world != 0) return false;
  const bool nests = unit.parts % world == 0 || world % unit.parts == 0;
  return nests && unit.count % unit.parts == 0 && unit.count / unit.parts * unit.width % limits::kLeaves == 0;
}

/// Every K that is cut is in equal pieces. The vocabulary cuts none: its ranges may be what they like.
bool keeps_bits(const ModelConfig& config, const Partition& partition) {
  for (size_t u = 0; u < kUnits; ++u) {
    const UnitConfig& unit = config.units[u];
    if (unit.width == 0 || unit.count == 0) continue;
    const bool equal =
        divides(unit, partition.world) && partition.ranges[u] == equal_ranges(unit.count, partition.world);
    if (!equal) return false;
  }
  return true;
}

std::string_view unit_name(size_t unit) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"channels", "heads", "attention heads", "MLP channels", "vocabulary"});
  static_assert(kNames.size() == kUnits);
  return kNames[unit];
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
  for (size_t u = 0; u < kUnits; ++u) {
    const UnitConfig& unit = config.units[u];
    const bool equal = even && unit.width > 0 && divides(unit, world);
    partition.ranges[u] = equal ? equal_ranges(unit.count, world) : block_ranges(unit, world, shares);
  }
  partition.aligned = keeps_bits(config, partition);
  return partition;
}

Status check_partition(const ModelConfig& config, const Partition& partition) {
  if (partition.world < 1 || partition.world > limits::kMaxWorld) {
    return Error{Errc::kProtocol, fmt::format("partition: {} ranks", partition.world), "partition"};
  }
  for (size_t u = 0; u < kUnits; ++u)
    RETURN_IF_ERROR(check_ranges(partition.ranges[u], partition.world, config.units[u].count, unit_name(u)));
  if (partition.aligned != keeps_bits(config, partition)) {
    return Error{Errc::kProtocol, "partition: 'aligned' is not what its ranges are", "partition"};
  }
  return {};
}

Range cover(const Partition& partition, Unit unit, int rank, int64_t pieces) {
  const Range units = partition.range(unit, rank);
  const int64_t count = partition.of(unit).back().end;
  if (units.size() == 0) return {};
  CHECK_EQ(count % pieces, 0);
  const int64_t sharing = count / pieces;
  return {units.begin / sharing, ceil_div(units.end, sharing)};
}

std::optional<SubGroup> sub_group(const ModelConfig& config, const Partition& partition, int rank) {
  for (const UnitConfig& unit : config.units) {
    const bool shared = unit.parts > 1 && unit.parts < partition.world;
    if (!shared || !partition.aligned) continue;
    const int world = partition.world / static_cast<int>(unit.parts);
    return SubGroup{.first = rank / world * world, .world = world, .index = rank / world};
  }
  return std::nullopt;
}

namespace {

/// Pieces of the segment that the rank holds.
Range held(const Segment& segment, const Partition& partition, int rank) {
  switch (segment.kind) {
    case Segment::Kind::kCut: {
      const Range units = partition.range(segment.unit, rank);
      const int64_t begin = std::clamp<int64_t>(units.begin - segment.first, 0, segment.count);
      return {begin, std::clamp<int64_t>(units.end - segment.first, begin, segment.count)};
    }
    case Segment::Kind::kCover:
      return cover(partition, segment.unit, rank, segment.count);
    case Segment::Kind::kWhole:
      break;
  }
  return {0, segment.count};
}

}  // namespace

std::vector<Range> local_parts(const TensorSpec& spec, const Partition& partition, int rank) {
  CHECK(rank >= 0 && rank < partition.world);
  const int64_t extent = spec.shape.empty() ? 1 : spec.shape[static_cast<size_t>(spec.cut.axis)];
  if (spec.cut.whole()) return {{0, extent}};
  std::vector<Range> parts;
  int64_t start = 0;
  for (const Segment& segment : spec.cut.segments) {
    const Range pieces = held(segment, partition, rank);
    if (pieces.size() > 0) parts.push_back({start + pieces.begin * segment.width, start + pieces.end * segment.width});
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
