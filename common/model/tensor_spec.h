// What a tensor of a checkpoint must look like and how ranks share it. The cut is data beside the shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor/stored_tensor.h"

namespace krait {

/// What is dealt out to ranks. A Partition holds one list of ranges for each.
enum class Unit : uint8_t {
  kChannel,        // inner channels of a Mamba-1 mixer
  kHead,           // heads of a Mamba-2 mixer
  kAttentionHead,  // query heads
  kMlp,            // inner channels of an MLP
  kVocab,          // vocabulary entries
};
inline constexpr int kUnits = 5;

/// Consecutive elements along the cut axis: `count` pieces of `width` elements each.
///   kCut    pieces are the units [first, first + count): a rank holds those of its range
///   kCover  pieces are shared by equally many neighbouring units (groups of heads): a rank holds every piece that a
///   unit
///           of its range uses, so that neighbours may hold the same one
///   kWhole  every rank holds all
struct Segment final {
  enum class Kind : uint8_t { kCut, kCover, kWhole };
  Kind kind = Kind::kCut;
  Unit unit = Unit::kChannel;
  int64_t count = 0;
  int64_t width = 1;
  int64_t first = 0;  // kCut only

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

/// Which elements of a stored tensor a spec stands for, where it is not all of them as they are. Packed tensors (the
/// two halves of in_proj, interleaved or one after the other) are several specs that view one stored tensor.
struct StoredView final {
  Shape stored_shape;         // as the checkpoint has it; empty: the spec's own
  int64_t first_element = 0;  // of the stored tensor, where the view begins
  int64_t row_step = 0;       // of a view of two axes: elements from row to row; 0: they lie side by side

  friend bool operator==(const StoredView&, const StoredView&) = default;
};

/// What a tensor is to the forward pass, and so in which type a rank keeps it.
enum class Packing : uint8_t {
  kNone,        // no matrix of a product, or read where it lies: float32
  kMatrix,      // a matrix of a product: the type of the run's weights
  kFineMatrix,  // one whose errors spoil much and whose bytes save little: the same, but never below eight bits
};

struct TensorSpec final {
  std::string role;  // what a block calls it: "in_proj.weight"
  std::string name;  // in the checkpoint: "backbone.layers.0.mixer.in_proj.weight"
  Shape shape;       // of the whole tensor, row-major
  Cut cut;
  StoredView view;
  Packing packing = Packing::kNone;
  bool optional = false;  // may be absent from the checkpoint
  bool shared = false;    // several layers use it
  std::string source;     // tied or shared: the tensor that stands for this one, read in its place; else empty

  /// The tensor of the checkpoint that is read.
  const std::string& stored_name() const { return source.empty() ? name : source; }
  /// The shape that it must have there.
  const Shape& stored_shape() const { return view.stored_shape.empty() ? shape : view.stored_shape; }
};

}  // namespace krait
