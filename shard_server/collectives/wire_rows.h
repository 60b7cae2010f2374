// The rows of a sum as they travel, and the arithmetic on them: packing, adding, unpacking. What a sum gives is written
// here and nowhere else:
//
//   result = B(R(sum over ranks of D(Q(A(x_r)))))      fp32, in the order of ReduceOrder, a rank's own part like any
//   other
//
// A rotates the rows and B rotates them back (of rotated codecs), Q packs and D unpacks, R packs and unpacks once more.
// R is left out at two ranks, and one rank packs nothing at all. Lanes at the end of a row that are exact travel as
// floats and are only added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/units.h"
#include "shard_server/collectives/codec.h"

namespace krait::collectives {

/// One row: its body in the codec's blocks, then the exact lanes.
struct WireRows final {
  const CodecEntry* codec = nullptr;
  int64_t rows = 0;
  int64_t width = 0;  // elements of a row, exact lanes included
  int64_t exact_lanes = 0;

  static WireRows make(const CodecEntry& codec, int64_t rows, int64_t width, int64_t exact_lanes);
  /// The same where nobody asks which row is which: floats that travel as they are become one row, cut anywhere.
  WireRows joined() const { return is_plain() ? WireRows{codec, 1, rows * width, 0} : *this; }

  bool is_plain() const { return !codec->format.has_value(); }
  int64_t body() const { return width - exact_lanes; }
  /// A row may be cut at multiples of these.
  int64_t block_floats() const { return is_plain() ? kPlainBlock : kernels::kCodecBlock; }
  int64_t block_bytes() const { return body_bytes(block_floats()); }
  int64_t row_blocks() const { return width == 0 ? 0 : std::max<int64_t>(1, ceil_div(body(), block_floats())); }
  int64_t lane_bytes() const { return exact_lanes * static_cast<int64_t>(sizeof(float)); }
  int64_t row_bytes() const { return body_bytes(body()) + lane_bytes(); }

 private:
  static constexpr int64_t kPlainBlock = 16;  // a cache line, so that no two ranks write into one
  int64_t body_bytes(int64_t floats) const;
};

/// Some of them: whole rows, or some blocks of one row. A block is numbered within the chunk, row after row; a row's
/// exact lanes belong to its last block.
struct WireChunk final {
  const WireRows* shape = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t block = 0;       // within its row, where it is part of one
  int64_t row_blocks = 0;  // of each row

  int64_t blocks() const { return rows * row_blocks; }
  int64_t bytes() const;
  /// Bytes before block `at`; all of them at blocks().
  int64_t offset(int64_t at) const;
};

/// What a sum does with a chunk. `in` and `out` are the whole operation's floats; packed bytes are the chunk's, from
/// its first block on.
class ChunkSum final {
 public:
  ChunkSum(const WireChunk& chunk, ReduceOrder order, kernels::CpuPath path)
      : chunk_(chunk), order_(order), path_(path) {}

  /// Q(A(x)) of all blocks.
  void pack(const float* in, std::byte* packed) const;
  /// One shot: the result of all blocks from every rank's packed bytes.
  void add(std::span<const std::byte* const> parts, float* out) const;
  /// Two shots: the packed sum of a stripe's blocks, written to where they are in `packed` (which may be one of
  /// `parts`), and what the packed stripe stands for.
  void add_stripe(std::span<const std::byte* const> parts, const Stripe& stripe, std::byte* packed) const;
  void unpack_stripe(const std::byte* packed, const Stripe& stripe, float* out) const;

 private:
  struct Piece;  // blocks of one row
  template <class Visit>
  void for_each_piece(const Stripe& stripe, const Visit& visit) const;
  void sum_tile(std::span<const std::byte* const> parts, int64_t offset, int64_t count, float* tile) const;
  void add_lanes(std::span<const std::byte* const> parts, int64_t offset, float* sums) const;

  const WireChunk& chunk_;
  const ReduceOrder order_;
  const kernels::CpuPath path_;
};

}  // namespace krait::collectives
