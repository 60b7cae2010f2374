// Inside of gemm: the smallest piece of a product, computed in registers. One table of tile functions for each path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/tensor/dtype.h"
#include "kernels/device/cpu_path.h"

namespace krait::kernels {

inline constexpr int kTileRows = 6;     // 6 x 64 accumulators fill 24 of the 32 registers of AVX-512
inline constexpr int kTileVectors = 4;  // 16 columns each: a panel
inline constexpr int kVectorColumns = 16;
inline constexpr int kMaxTreeDepth = 3;  // partial sums that wait while eight leaves are added as a tree

/// out[r][c] for `rows` rows and 16 * `vectors` columns from the start of a panel, all k, tree, bias and accumulation
/// included. Whole vectors are read from bias and written to out.
struct TileArgs final {
  const void* a =
      nullptr;           // float, pairs of bf16 or groups of integers, as the table says; leaves padded as in the panel
  int64_t a_stride = 0;  // elements between rows; bytes for integers
  const std::byte* panel = nullptr;
  int leaves = 1;
  int64_t leaf_k = 0;                   // padded
  const std::byte* prefetch = nullptr;  // what is read next: one line of it is fetched each step; any address
  int64_t prefetch_bytes = 0;           // from step to step
  float* out = nullptr;
  int64_t ldo = 0;
  const float* bias = nullptr;
  bool accumulate = false;
  int rows = 0;
  int vectors = 0;
};

using TileFunction = void (*)(const TileArgs& args);

/// A row of activations, from [leaves][leaf_k], to what the tiles read: bf16 or float in [leaves][padded_leaf_k], or
/// the integers of quantize_row().
using RoundFunction = void (*)(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to);

struct TileTable final {
  TileFunction tile[kTileRows][kTileVectors] = {};
  RoundFunction round = nullptr;  // for other weights than float32
  int64_t activation_bytes = 4;   // 4: float; 2: bf16; 1: integers
  int few_rows = kTileRows;       // the most rows of a tile that reads its panel in one stream
};

/// Rows of sums in memory, for tiles that do not keep them in registers: added leaf by leaf as a tree, then written
/// out. Inlined into functions of each path, so that the compiler may use that path's vectors.
template <int kRows, int kColumns>
struct TileSums final {
  static constexpr int kCount = kRows * kColumns;

  /// The sums of a leaf are there: adds the waiting left neighbours to them, and keeps them waiting unless it is the
  /// last leaf.
  __attribute__((always_inline)) void add_to_tree(int leaf, int leaves) {
    // Leaf number 0b..0111 completes three subtrees: each trailing one is a waiting left neighbour.
    for (int ones = leaf; (ones & 1) != 0; ones >>= 1) {
      --depth;
      for (int i = 0; i < kCount; ++i)
        sums[i] = waiting[depth][i] + sums[i];
    }
    if (leaf + 1 < leaves) std::copy_n(sums, kCount, waiting[depth++]);
  }

  __attribute__((always_inline)) void write_out(const TileArgs& args) const {
    for (int r = 0; r < kRows; ++r) {
      float* const out = args.out + r * args.ldo;
      for (int c = 0; c < kColumns; ++c) {
        const float sum = args.bias != nullptr ? sums[r * kColumns + c] + args.bias[c] : sums[r * kColumns + c];
        out[c] = args.accumulate ? out[c] + sum : sum;
      }
    }
  }

  alignas(64) float sums[kCount];
  alignas(64) float waiting[kMaxTreeDepth][kCount];
  int depth = 0;
};

/// A table of the functions Tile::run<rows, vectors>.
template <class Tile>
constexpr TileTable make_tile_table(RoundFunction round, int64_t activation_bytes) {
  TileTable table;
  table.round = round;
  table.activation_bytes = activation_bytes;
  [&]<int... kCells>(std::integer_sequence<int, kCells...>) {
    ((table.tile[kCells / kTileVectors][kCells % kTileVectors] =
          &Tile::template run<kCells / kTileVectors + 1, kCells % kTileVectors + 1>),
     ...);
  }
  (std::make_integer_sequence<int, kTileRows * kTileVectors>());
  return table;
}

extern const TileTable kPortableF32;
extern const TileTable kPortableBf16;
extern const TileTable kPortableInt8;
extern const TileTable kPortableInt4;
#if defined(__x86_64__)
extern const TileTable kAvx2F32;
extern const TileTable kAvx2Bf16;
extern const TileTable kAvx512F32;
extern const TileTable kAvx512Bf16Widened;  // without the instruction: bf16 widened to float
extern const TileTable kAvx512Bf16Dot;      // vdpbf16ps
extern const TileTable kAvx2Int8;
extern const TileTable kAvx2Int4;
extern const TileTable kAvx2Int8Dot;  // with AVX-VNNI
extern const TileTable kAvx2Int4Dot;
extern const TileTable kAvx512Int8;
extern const TileTable kAvx512Int4;
extern const TileTable kAvx512Int8Dot;  // with AVX512_VNNI
extern const TileTable kAvx512Int4Dot;
#endif

/// The functions of a path. Where this build has none of it (other processors), the portable ones: the same bits.
const TileTable& tile_table(CpuPath path, DType dtype);

}  // namespace krait::kernels
