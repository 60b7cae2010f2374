// Who holds what: for each unit the contiguous range of every rank. Ranges are data, may be uneven and may be empty.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/limits.h"
#include "common/base/result.h"
#include "common/model/model_config.h"
#include "common/model/tensor_spec.h"

namespace krait {

struct Range final {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

struct Partition final {
  int world = 1;
  /// Every K that is cut between ranks is cut into equal halves, quarters or eighths of a multiple of eight, and so are
  /// its parts that are summed for themselves: then results have the bits of world = 1 (the exactness contract, rule
  /// 1).
  bool aligned = false;
  std::array<std::vector<Range>, kUnits> ranges;  // [unit][rank]

  const std::vector<Range>& of(Unit unit) const { return ranges[static_cast<size_t>(unit)]; }
  Range range(Unit unit, int rank) const { return of(unit)[static_cast<size_t>(rank)]; }
  /// Leaves of a cut K that one rank sums: its subtree of the eight when aligned, else one plain sum. The leaves of a
  /// rank are equal pieces of its range.
  int leaves() const { return leaves_of_part(1); }
  /// The same for a sum over one of `parts` equal parts of the K: all eight where ranks hold whole parts.
  int leaves_of_part(int64_t parts) const {
    if (!aligned) return 1;
    return static_cast<int>(parts >= world ? limits::kLeaves : limits::kLeaves * parts / world);
  }

  friend bool operator==(const Partition&, const Partition&) = default;
};

/// Ranges for `world` ranks. Equal ones where that keeps the bits; else whole blocks of units as even as can be, or in
/// proportion to `shares` (one positive number a rank; equal shares count as none). Errors: kInvalidArgument, param
/// "world" or "shares".
Result<Partition> make_partition(const ModelConfig& config, int world, std::span<const double> shares = {});

/// Whether a partition that came from elsewhere fits the model: one range a rank for each unit, in order, without gap
/// or overlap, and `aligned` only where it is true. Error: kProtocol, param "partition".
Status check_partition(const ModelConfig& config, const Partition& partition);

/// Which of `pieces` equal pieces of the units the rank needs, where each is shared by neighbouring units (a group of
/// heads): those that its range touches. Neighbours' covers may overlap. Empty for an empty range.
Range cover(const Partition& partition, Unit unit, int rank, int64_t pieces);

/// Ranks that share one part of a mixer (UnitConfig::parts) and nothing else: neighbours, equally many a part.
struct SubGroup final {
  int first = 0;  // its first rank
  int world = 1;
  int index = 0;  // among the sub-groups

  friend bool operator==(const SubGroup&, const SubGroup&) = default;
};

/// The rank's sub-group, where the partition nests in parts and a part is shared at all.
std::optional<SubGroup> sub_group(const ModelConfig& config, const Partition& partition, int rank);

/// The parts of the cut axis (elements of the whole tensor) that `rank` holds, in the order of its local tensor.
/// Empty parts are left out; neighbours are not merged. The whole axis for a tensor that is not cut.
std::vector<Range> local_parts(const TensorSpec& spec, const Partition& partition, int rank);

/// Shape of the rank's tensor; an extent may be 0.
Shape local_shape(const TensorSpec& spec, const Partition& partition, int rank);

}  // namespace krait
