#include "kernels/gemm/packed_matrix.h"

#include <cstring>

#include "common/base/check.h"
#include "kernels/gemm/bf16_rounding.h"

namespace krait::kernels {
namespace {

constexpr int64_t kCellBytes = 4;  // one f32, or a pair of bf16

void check_shape(const PackedMatrix& matrix) {
  CHECK(matrix.dtype == DType::kF32 || matrix.dtype == DType::kBF16);
  CHECK(matrix.n >= 0 && matrix.k >= 0);
  CHECK(matrix.leaves == 1 || matrix.leaves == 2 || matrix.leaves == 4 || matrix.leaves == 8);
  CHECK_EQ(matrix.k % matrix.leaves, 0);
}

/// Where row `n_index` keeps its element `k_index`.
std::byte* element(const PackedMatrix& matrix, int64_t n_index, int64_t k_index) {
  std::byte* const column =
      matrix.data + n_index / kPanelColumns * matrix.panel_bytes() + n_index % kPanelColumns * kCellBytes;
  const int64_t leaf_k = matrix.leaf_k();
  const int64_t padded_k = k_index / leaf_k * matrix.padded_leaf_k() + k_index % leaf_k;
  if (matrix.dtype == DType::kF32) return column + padded_k * kPanelColumns * kCellBytes;
  return column + padded_k / 2 * kPanelColumns * kCellBytes + padded_k % 2 * 2;
}

}  // namespace

int64_t packed_bytes(DType dtype, int64_t n, int64_t k, int leaves) {
  const PackedMatrix matrix{.dtype = dtype, .n = n, .k = k, .leaves = leaves};
  check_shape(matrix);
  return matrix.panels() * matrix.panel_bytes();
}

void pack_row(PackedMatrix& matrix, int64_t n_index, const float* row) {
  check_shape(matrix);
  CHECK(n_index >= 0 && n_index < matrix.n);
  for (int64_t i = 0; i < matrix.k; ++i) {
    std::byte* const to = element(matrix, n_index, i);
    if (matrix.dtype == DType::kF32) {
      std::memcpy(to, &row[i], sizeof(float));
    } else {
      const uint16_t bits = round_to_bf16(row[i]);
      std::memcpy(to, &bits, sizeof(bits));
    }
  }
}

void unpack_row(const PackedMatrix& matrix, int64_t n_index, float* row) {
  check_shape(matrix);
  CHECK(n_index >= 0 && n_index < matrix.n);
  for (int64_t i = 0; i < matrix.k; ++i) {
    const std::byte* const from = element(matrix, n_index, i);
    if (matrix.dtype == DType::kF32) {
      std::memcpy(&row[i], from, sizeof(float));
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof(bits));
      row[i] = bf16_to_f32(bits);
    }
  }
}

}  // namespace krait::kernels
