// What a tensor of a checkpoint must look like and how ranks share it. The cut is data beside the shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/tensor_view.h"

namespace krait {

/// What is dealt out to ranks. A Partition holds one list of ranges for each.
enum class Unit : uint8_t {
  kChannel,  // inner channels of a mixer
  kVocab,    // vocabulary entries
};
inline constexpr int kUnits = 2;

/// Consecutive elements along the cut axis: `count` units of `width` elements each. A segment of no unit is held whole
/// by every rank. A rank's part of the segment is elements [begin * width, end * width) for its range of the unit.
struct Segment final {
  enum class Kind : uint8_t { kCut, kWhole };
  Kind kind = Kind::kCut;
  Unit unit = Unit::kChannel;
  int64_t count = 0;  // units in the whole tensor; for kWhole, elements / width
  int64_t width = 1;  // elements a unit

  int64_t elements() const { return count * width; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// How a tensor is cut: along `axis`, which is made of `segments` one after another. No segments: every rank holds all.
/// A rank's tensor is its parts of all segments in order, so in_proj's [x(I); z(I)] becomes [x(range); z(range)].
struct Cut final {
  int axis = 0;
  std::vector<Segment> segments;

  bool whole() const { return segments.empty(); }
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The usual cuts.
inline Cut whole_cut() {
  return {};
}
inline Cut cut_by(Unit unit, int axis, int64_t count) {
  return {.axis = axis, .segments = {{.kind = Segment::Kind::kCut, .unit = unit, .count = count}}};
}

struct TensorSpec final {
  std::string role;  // what a block calls it: "in_proj.weight"
  std::string name;  // in the checkpoint: "backbone.layers.0.mixer.in_proj.weight"
  Shape shape;       // of the whole tensor, row-major
  Cut cut;
  bool optional = false;  // may be absent from the checkpoint
  std::string source;     // tied: the tensor that stands for this one, read in its place; else empty

  /// The tensor of the checkpoint that is read.
  const std::string& stored_name() const { return source.empty() ? name : source; }
};

}  // namespace krait
