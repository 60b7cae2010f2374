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

constexpr int64_t kLineBytes = kPanelColumns * kCellBytes;  // of a panel: one k, or a pair of them

/// Calls visit(k index, address) for every element of row `n_index`, in order of k.
template <class Visit>
void for_each_element(const PackedMatrix& matrix, int64_t n_index, Visit visit) {
  const bool pairs = matrix.dtype == DType::kBF16;
  const int64_t leaf_k = matrix.leaf_k();
  std::byte* line = matrix.data + n_index / kPanelColumns * matrix.panel_bytes() + n_index % kPanelColumns * kCellBytes;
  for (int64_t first = 0; first < matrix.k; first += leaf_k) {
    for (int64_t i = 0; i < leaf_k; ++i) {
      if (pairs) {
        visit(first + i, line + i / 2 * kLineBytes + i % 2 * 2);
      } else {
        visit(first + i, line + i * kLineBytes);
      }
    }
    line += (pairs ? matrix.padded_leaf_k() / 2 : leaf_k) * kLineBytes;
  }
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
  if (matrix.dtype == DType::kF32) {
    for_each_element(matrix, n_index, [&](int64_t i, std::byte* to) { std::memcpy(to, &row[i], sizeof(float)); });
  } else {
    for_each_element(matrix, n_index, [&](int64_t i, std::byte* to) {
      const uint16_t bits = round_to_bf16(row[i]);
      std::memcpy(to, &bits, sizeof(bits));
    });
  }
}

void unpack_row(const PackedMatrix& matrix, int64_t n_index, float* row) {
  check_shape(matrix);
  CHECK(n_index >= 0 && n_index < matrix.n);
  if (matrix.dtype == DType::kF32) {
    for_each_element(matrix, n_index, [&](int64_t i, const std::byte* at) { std::memcpy(&row[i], at, sizeof(float)); });
  } else {
    for_each_element(matrix, n_index, [&](int64_t i, const std::byte* at) {
      uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      row[i] = bf16_to_f32(bits);
    });
  }
}

}  // namespace krait::kernels
