#include "kernels/gemm/packed_matrix.h"

#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/base/units.h"
#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/integer_weights.h"

namespace krait::kernels {
namespace {

constexpr int64_t kCellBytes = kLineBytes / kPanelColumns;  // of one column: an f32, a pair of bf16, integers

const IntegerFormat& format_of(DType dtype) {
  return dtype == DType::kI8 ? kInt8Format : kInt4Format;
}

/// Neighbours in k that share a cell.
int64_t cell_k(DType dtype) {
  if (dtype == DType::kF32) return 1;
  return dtype == DType::kBF16 ? 2 : format_of(dtype).cell_k;
}

void check_shape(const PackedMatrix& matrix) {
  CHECK(matrix.dtype == DType::kF32 || matrix.dtype == DType::kBF16 || is_quantized(matrix.dtype));
  CHECK(matrix.n >= 0 && matrix.k >= 0);
  CHECK(matrix.leaves == 1 || matrix.leaves == 2 || matrix.leaves == 4 || matrix.leaves == 8);
  CHECK_EQ(matrix.k % matrix.leaves, 0);
}

/// Calls visit(k index, address) for every element of row `n_index`, in order of k; not of quantized types.
template <class Visit>
void for_each_element(const PackedMatrix& matrix, int64_t n_index, Visit visit) {
  const int64_t in_cell = cell_k(matrix.dtype);
  const int64_t element_bytes = kCellBytes / in_cell;
  const int64_t leaf_k = matrix.leaf_k();
  std::byte* line = matrix.data + n_index / kPanelColumns * matrix.panel_bytes() + n_index % kPanelColumns * kCellBytes;
  for (int64_t first = 0; first < matrix.k; first += leaf_k) {
    for (int64_t i = 0; i < leaf_k; ++i)
      visit(first + i, line + i / in_cell * kLineBytes + i % in_cell * element_bytes);
    line += matrix.leaf_bytes();
  }
}

/// Calls visit(first k, how many, address of the scale, address of the first cell) for every group of row `n_index`.
template <class Visit>
void for_each_group(const PackedMatrix& matrix, int64_t n_index, Visit visit) {
  const IntegerFormat& format = format_of(matrix.dtype);
  const int64_t column = n_index % kPanelColumns;
  std::byte* group = matrix.data + n_index / kPanelColumns * matrix.panel_bytes();
  const int64_t leaf_k = matrix.leaf_k();
  for (int64_t first = 0; first < matrix.k; first += leaf_k) {
    for (int64_t begin = 0; begin < leaf_k; begin += format.group_k) {
      const int64_t count = std::min(leaf_k - begin, format.group_k);
      visit(first + begin, count, group + scale_offset(column), group + kScaleBytes + column * kCellBytes);
      group += kScaleBytes + format.group_k / format.cell_k * kLineBytes;
    }
  }
}

/// The byte of an int8 weight, or that of an int4 weight and how far up in it the four bits are.
struct Place final {
  int64_t byte = 0;
  int shift = 0;
};
Place place_of(DType dtype, int64_t i) {
  const int64_t in_cell = cell_k(dtype);
  return {.byte = i / in_cell * kLineBytes + i % 4, .shift = i % in_cell >= 4 ? 4 : 0};
}

void pack_integers(PackedMatrix& matrix, int64_t n_index, const float* row) {
  const bool int8 = matrix.dtype == DType::kI8;
  const int32_t offset = format_of(matrix.dtype).offset;
  for_each_group(matrix, n_index, [&](int64_t first, int64_t count, std::byte* scale_at, std::byte* cells) {
    int32_t levels[kInt8Format.group_k];
    const uint16_t scale =
        int8 ? quantize_int8_weights(row + first, count, levels) : quantize_int4_weights(row + first, count, levels);
    std::memcpy(scale_at, &scale, sizeof(scale));
    // What pads a group meets activations that are zero.
    for (int64_t i = 0; i < count; ++i) {
      const Place place = place_of(matrix.dtype, i);
      const auto level = static_cast<std::byte>(levels[i] + offset);
      cells[place.byte] = place.shift == 0 ? level : cells[place.byte] | level << place.shift;
    }
  });
}

}  // namespace

int64_t PackedMatrix::padded_leaf_k() const {
  return round_up(leaf_k(), is_quantized(dtype) ? format_of(dtype).group_k : cell_k(dtype));
}

int64_t PackedMatrix::leaf_bytes() const {
  const int64_t groups = is_quantized(dtype) ? padded_leaf_k() / format_of(dtype).group_k : 0;
  return groups * kScaleBytes + padded_leaf_k() / cell_k(dtype) * kLineBytes;
}

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
  } else if (matrix.dtype == DType::kBF16) {
    for_each_element(matrix, n_index, [&](int64_t i, std::byte* to) {
      const uint16_t bits = round_to_bf16(row[i]);
      std::memcpy(to, &bits, sizeof(bits));
    });
  } else {
    pack_integers(matrix, n_index, row);
  }
}

void unpack_row(const PackedMatrix& matrix, int64_t n_index, float* row) {
  check_shape(matrix);
  CHECK(n_index >= 0 && n_index < matrix.n);
  if (matrix.dtype == DType::kF32) {
    for_each_element(matrix, n_index, [&](int64_t i, const std::byte* at) { std::memcpy(&row[i], at, sizeof(float)); });
  } else if (matrix.dtype == DType::kBF16) {
    for_each_element(matrix, n_index, [&](int64_t i, const std::byte* at) {
      uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      row[i] = bf16_to_f32(bits);
    });
  } else {
    std::vector<int32_t> integers(static_cast<size_t>(matrix.k));
    unpack_integers(matrix, n_index, integers.data(), row);
    for (int64_t i = 0; i < matrix.k; ++i)
      row[i] *= static_cast<float>(integers[static_cast<size_t>(i)]);
  }
}

void unpack_integers(const PackedMatrix& matrix, int64_t n_index, int32_t* integers, float* scales) {
  CHECK(is_quantized(matrix.dtype));
  const int32_t mask = matrix.dtype == DType::kI8 ? 0xff : 0xf;
  const int32_t offset = format_of(matrix.dtype).offset;
  for_each_group(matrix, n_index, [&](int64_t first, int64_t count, const std::byte* scale_at, const std::byte* cells) {
    uint16_t scale = 0;
    std::memcpy(&scale, scale_at, sizeof(scale));
    for (int64_t i = 0; i < count; ++i) {
      const Place place = place_of(matrix.dtype, i);
      integers[first + i] = (static_cast<int32_t>(cells[place.byte]) >> place.shift & mask) - offset;
      scales[first + i] = bf16_to_f32(scale);
    }
  });
}

}  // namespace krait::kernels
