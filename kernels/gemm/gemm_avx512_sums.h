// Inside of gemm: what the AVX-512 tiles do with float sums in registers once a leaf of k is done.
#pragma once

#if defined(__x86_64__)

#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/gemm_x86.h"

namespace krait::kernels {

/// Adds the waiting left neighbours of a finished leaf; keeps the sum waiting unless it is the last leaf.
template <int kRows, int kVectors>
KRAIT_AVX512_INLINE void add_to_tree(int leaf, int leaves, int& depth, float (*waiting)[kRows * kVectors * 16],
                                     __m512 (&sums)[kRows][kVectors]) {
  // Leaf number 0b..0111 completes three subtrees: each trailing one is a waiting left neighbour.
  for (int ones = leaf; (ones & 1) != 0; ones >>= 1) {
    const float* const left = waiting[--depth];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_add_ps(_mm512_load_ps(left + (r * kVectors + v) * 16), sums[r][v]);
      }
    }
  }
  if (leaf + 1 == leaves) return;
  float* const keep = waiting[depth++];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      _mm512_store_ps(keep + (r * kVectors + v) * 16, sums[r][v]);
  }
}

/// Bias and accumulation, then to the columns from `column` on.
template <int kRows, int kVectors>
KRAIT_AVX512_INLINE void write_out(const TileArgs& args, int column, __m512 (&sums)[kRows][kVectors]) {
  if (args.bias != nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 bias = _mm512_loadu_ps(args.bias + column + v * 16);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r)
        sums[r][v] = _mm512_add_ps(sums[r][v], bias);
    }
  }
  if (args.accumulate) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_add_ps(_mm512_loadu_ps(args.out + r * args.ldo + column + v * 16), sums[r][v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(args.out + r * args.ldo + column + v * 16, sums[r][v]);
  }
}

}  // namespace krait::kernels

#endif  // __x86_64__
