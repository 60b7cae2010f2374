// The product of activations and packed weights, the same bits for a row in any company.
//
//   out[r][c - column_begin] = (accumulate ? out[...] : nothing) + (tree(r, c) + bias[c])
//   tree(r, c) = balanced binary tree, in float32, over the leaves of k: ((l0 + l1) + (l2 + l3)) + ...
//   leaf       = s, where s = +0; then for every k of the leaf in order: s = fma(a[r][k], w[c][k], s)
//   bf16 leaf  = s, where a is first rounded to bf16 (nearest, ties to even; subnormals to zero), and for every pair
//                (k, k + 1), k even, in order: s = fma(a[r][k], w[c][k], fma(a[r][k + 1], w[c][k + 1], s))
//   int8 leaf  = s, where s = +0; then for every group of 64 neighbours in k (the last one what the leaf has left), in
//                order: s = fma(a_scale * w_scale, float(sum of the products of integers), s), the integers and scales
//                as below. A sum of integers is exact, in any order; it stays below 2^24, so that its float is too.
//   int4 leaf  = the same with groups of 32
//
// Groups begin with their leaf, so aligned ranks hold the groups of the whole. A group becomes integers so:
//   activations     scale = largest magnitude / 127; integer = nearest(a * (127 / largest magnitude)), ties to even
//   int8 weights    scale = largest magnitude / 127, upwards to bf16; integer = nearest(w / scale), ties to even
//   int4 weights    integer = nearest(w * (1 / scale)), ties to even, cut to -8..7; scale = +-largest magnitude / d, to
//                   bf16, with the sign and the d of 8, 7.5, ... 5.5 that leave the least sum of squared errors
//   A group whose largest magnitude is below 2^-100: scale and integers 0. With NaN or infinity: scale NaN, integers 0,
//   so that every sum that it is in is NaN.
// A symmetric scale of 16 bits costs 8.25 and 4.5 bits a weight.
//
// The order within a pair of bf16 is that of the vdpbf16ps instruction, found by measurement. Every path (portable,
// AVX2, AVX-512, AVX-512 BF16; integers with and without VNNI) gives these bits for finite values, for every m, row
// offset, number of threads and column range; only vdpbf16ps flushes sums below 2^-126 to zero where the others do not.
// P ranks that each hold 8 / P neighbouring leaves, their results added as a balanced tree, give the bits of one rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/device/stream.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {

/// Rows of activations as the products with weights of one type, k and leaves read them: rounded or quantized, or the
/// rows themselves in f32.
struct PreparedRows final {
  const void* data = nullptr;
  int64_t stride = 0;  // elements between rows; bytes for integers
  int64_t m = 0;
  DType dtype = DType::kF32;  // k and leaves, of the weights
  int64_t k = 0;
  int leaves = 0;

  /// Whether a product with these weights may read them.
  bool fit(const PackedMatrix& weights) const {
    return weights.dtype == dtype && weights.k == k && weights.leaves == leaves;
  }
};

struct GemmArgs final {
  const float* a = nullptr;  // [m][k], rows lda apart
  int64_t lda = 0;
  const PreparedRows* prepared =
      nullptr;  // the same rows, prepared for these weights; then a and workspace are not read
  int64_t m = 0;
  const PackedMatrix* weights = nullptr;
  float* out = nullptr;  // [m][column_end - column_begin], rows ldo apart; must not overlap a
  int64_t ldo = 0;
  bool accumulate = false;         // add to what out holds, once, after the tree and the bias
  const float* bias = nullptr;     // [n], or none
  int64_t column_begin = 0;        // the columns to compute; any range, whole panels are cheapest
  int64_t column_end = -1;         // -1: n
  std::span<std::byte> workspace;  // at least gemm_workspace_bytes(m, k, dtype); not used by another gemm meanwhile
};

/// Workspace for products, or room for prepared rows, of at most max_m rows: room for rounded activations; nothing in
/// f32.
int64_t gemm_workspace_bytes(int64_t max_m, int64_t k, DType dtype);

/// "dot" where products of this path and type run on vdpbf16ps, which flushes sums below 2^-126 to zero, else "fma":
/// part of what bits depend on.
std::string_view gemm_arithmetic(CpuPath path, DType dtype);

/// What a product with `weights` does to its m rows of `a` first, once for several products of the same rows. The rows
/// are written to `room`, at least gemm_workspace_bytes(m, k, dtype), aligned to 64 bytes; in f32 they stay where they
/// are.
PreparedRows prepare_rows(Stream& stream, const float* a, int64_t lda, int64_t m, const PackedMatrix& weights,
                          std::span<std::byte> room);

/// The product. Allocates nothing.
void gemm(Stream& stream, const GemmArgs& args);

}  // namespace krait::kernels
