// Who holds what: for each unit the contiguous range of every rank. Ranges are data, may be uneven and may be empty.
#pragma once

#include <array>
#include <cstdint>
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
  /// Every K that is cut between ranks is cut into equal halves, quarters or eighths of a multiple of eight:
  /// then results have the bits of world = 1 (the exactness contract, rule 1).
  bool aligned = false;
  std::array<std::vector<Range>, kUnits> ranges;  // [unit][rank]

  const std::vector<Range>& of(Unit unit) const { return ranges[static_cast<size_t>(unit)]; }
  Range range(Unit unit, int rank) const { return of(unit)[static_cast<size_t>(rank)]; }
  /// Leaves of a cut K that one rank sums: its subtree of the eight when aligned, else one plain sum. The leaves of a
  /// rank are equal pieces of its range.
  int leaves() const { return aligned ? limits::kLeaves / world : 1; }

  friend bool operator==(const Partition&, const Partition&) = default;
};

/// Ranges for `world` ranks. Equal ones where that is aligned; else whole blocks of 16 channels as even as can be, or
/// in proportion to `shares` (one positive number a rank; equal shares count as none). The vocabulary goes in blocks
/// of 16 likewise. Errors: kInvalidArgument, param "world" or "shares".
Result<Partition> make_partition(const ModelConfig& config, int world, std::span<const double> shares = {});

/// Whether a partition that came from elsewhere fits the model: one range a rank for each unit, in order, without gap
/// or overlap, and `aligned` only where it is true. Error: kProtocol, param "partition".
Status check_partition(const ModelConfig& config, const Partition& partition);

/// The parts of the cut axis (elements of the whole tensor) that `rank` holds, in the order of its local tensor.
/// Empty parts are left out; neighbours are not merged. The whole axis for a tensor that is not cut.
std::vector<Range> local_parts(const TensorSpec& spec, const Partition& partition, int rank);

/// Shape of the rank's tensor; an extent may be 0.
Shape local_shape(const TensorSpec& spec, const Partition& partition, int rank);

}  // namespace krait
