// Inside of gemm: the smallest piece of a product, computed in registers. One table of tile functions for each path.
#pragma once

#include <cstddef>
#include <cstdint>

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
  const void* a = nullptr;  // float, or pairs of bf16 where the table says so; leaves padded as in the panel
  int64_t a_stride = 0;     // elements between rows
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

/// A row of activations to bf16, from [leaves][leaf_k] to [leaves][padded_leaf_k], in the form that the tiles read.
using RoundFunction = void (*)(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to);

struct TileTable final {
  TileFunction tile[kTileRows][kTileVectors] = {};
  RoundFunction round = nullptr;  // for bf16 weights
  int64_t activation_bytes = 4;   // 2: bf16; 4: float
};

extern const TileTable kPortableF32;
extern const TileTable kPortableBf16;
#if defined(__x86_64__)
extern const TileTable kAvx2F32;
extern const TileTable kAvx2Bf16;
extern const TileTable kAvx512F32;
extern const TileTable kAvx512Bf16Widened;  // without the instruction: bf16 widened to float
extern const TileTable kAvx512Bf16Dot;      // vdpbf16ps
#endif

/// The functions of a path. Where this build has none of it (other processors), the portable ones: the same bits.
const TileTable& tile_table(CpuPath path, DType dtype);

}  // namespace krait::kernels
