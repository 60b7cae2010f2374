// Weights of a matrix product, laid out once at load in the order in which the kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tensor/dtype.h"

namespace krait::kernels {

inline constexpr int64_t kPanelColumns = 64;

/// A matrix w[n][k] in panels of 64 of its n rows (columns of the product); missing rows of the last panel are zero.
/// k is cut into `leaves` contiguous equal parts, one after another within a panel:
///   f32   panel [leaf][k / leaves][64]
///   bf16  panel [leaf][ceil(k / leaves / 2)][64][2]: pairs of neighbours in k, zero where a leaf is odd, so that no
///         pair straddles two leaves and a rank that holds some of the leaves holds exactly these bytes of them.
struct PackedMatrix final {
  DType dtype = DType::kF32;  // kF32 or kBF16
  int64_t n = 0;
  int64_t k = 0;
  int leaves = 1;             // 1, 2, 4 or 8; divides k
  std::byte* data = nullptr;  // packed_bytes() of them, aligned to 64 bytes, zeroed before the first pack_row

  int64_t leaf_k() const { return k / leaves; }
  /// k of a leaf with its padding.
  int64_t padded_leaf_k() const { return dtype == DType::kBF16 ? (leaf_k() + 1) / 2 * 2 : leaf_k(); }
  int64_t panels() const { return (n + kPanelColumns - 1) / kPanelColumns; }
  int64_t panel_bytes() const { return leaves * padded_leaf_k() * kPanelColumns * dtype_bytes(dtype); }
};

/// Bytes of `data` for such a matrix: a multiple of 64.
int64_t packed_bytes(DType dtype, int64_t n, int64_t k, int leaves);

/// Puts row `n_index` of the weights, k float32 values, in its place. bf16: rounded to nearest, ties to even (exact for
/// values that came from bf16), and subnormals become zero, as the hardware's products treat them. Rows may come in any
/// order, and from several threads where they are of different panels.
void pack_row(PackedMatrix& matrix, int64_t n_index, const float* row);

/// Row `n_index` as the product sees it, k float32 values: the inverse of pack_row.
void unpack_row(const PackedMatrix& matrix, int64_t n_index, float* row);

}  // namespace krait::kernels
