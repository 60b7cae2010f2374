// Weights of a matrix product, laid out once at load in the order in which the kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/tensor/dtype.h"

namespace krait::kernels {

inline constexpr int64_t kPanelColumns = 64;
inline constexpr int64_t kLineBytes = 4 * kPanelColumns;   // of a panel: a cell of 32 bits of each column
inline constexpr int64_t kScaleBytes = 2 * kPanelColumns;  // of one group of a panel

/// Bytes from the scales of a group to that of one column.
constexpr int64_t scale_offset(int64_t column) {
  return column / 32 * 64 + column % 16 * 4 + column / 16 % 2 * 2;
}

/// Whether matrices of this type hold integers and scales.
constexpr bool is_quantized(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI4;
}

/// A matrix w[n][k] in panels of 64 of its n rows (columns of the product); missing rows of the last panel are zero.
/// k is cut into `leaves` contiguous equal parts, one after another within a panel:
///   f32   panel [leaf][k / leaves][64]
///   bf16  panel [leaf][ceil(k / leaves / 2)][64][2]: pairs of neighbours in k, zero where a leaf is odd, so that no
///         pair straddles two leaves and a rank that holds some of the leaves holds exactly these bytes of them.
///   int8  panel [leaf][group]: scales [2][16][2] in bf16 (of columns 32 i + j and 32 i + 16 + j), then [cell][64][4],
///         each byte a weight plus 128. A group is 64 neighbours in k, or what a leaf has left, padded to 16 cells
///         of 4.
///   int4  the same with groups of 32, 4 cells of 8: a byte holds weight j of a cell plus 8 in its low half and weight
///         j + 4 plus 8 in its high half.
/// One stream of memory holds all that a product reads. Columns without a row have scale 0.
struct PackedMatrix final {
  DType dtype = DType::kF32;  // kF32, kBF16, kI8 or kI4
  int64_t n = 0;
  int64_t k = 0;
  int leaves = 1;             // 1, 2, 4 or 8; divides k
  std::byte* data = nullptr;  // packed_bytes() of them, aligned to 64 bytes, zeroed before the first pack_row

  int64_t leaf_k() const { return k / leaves; }
  /// k of a leaf with its padding.
  int64_t padded_leaf_k() const;
  int64_t panels() const { return (n + kPanelColumns - 1) / kPanelColumns; }
  int64_t leaf_bytes() const;
  int64_t panel_bytes() const { return leaves * leaf_bytes(); }
};

/// Bytes of `data` for such a matrix: a multiple of 64.
int64_t packed_bytes(DType dtype, int64_t n, int64_t k, int leaves);

/// Puts row `n_index` of the weights, k float32 values, in its place, rounded as gemm.h says. Rows may come in any
/// order, and from several threads where they are of different panels.
void pack_row(PackedMatrix& matrix, int64_t n_index, const float* row);

/// Row `n_index` as the product sees it, k float32 values: the inverse of pack_row. Quantized types: scale times
/// integer, which is exact.
void unpack_row(const PackedMatrix& matrix, int64_t n_index, float* row);

/// Row `n_index` of a quantized matrix as it is stored: its k integers, and the scale of each.
void unpack_integers(const PackedMatrix& matrix, int64_t n_index, int32_t* integers, float* scales);

}  // namespace krait::kernels
