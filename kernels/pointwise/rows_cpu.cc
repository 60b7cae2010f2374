#include <cstring>

#include "common/base/check.h"
#include "common/tensor/half.h"
#include "kernels/pointwise/rows.h"

namespace krait::kernels {
namespace {

/// Plain loops: each is bound by memory, and a conversion or one addition has the same bits however it is compiled.
void convert_row(const std::byte* from, DType dtype, int64_t width, float* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(width) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }
}

}  // namespace

void widen_rows(Stream& stream, const std::byte* rows, DType dtype, int64_t count, int64_t width, float* out,
                int64_t out_stride) {
  const KernelTimer timer(stream, KernelKind::kPointwise);
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16);
  const int64_t row_bytes = width * dtype_bytes(dtype);
  stream.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      convert_row(rows + row * row_bytes, dtype, width, out + row * out_stride);
  });
}

void gather_rows(Stream& stream, const float* x, int64_t x_stride, std::span<const int32_t> rows, int64_t width,
                 float* out, int64_t out_stride) {
  const KernelTimer timer(stream, KernelKind::kPointwise);
  stream.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + i * out_stride, x + rows[static_cast<size_t>(i)] * x_stride,
                  static_cast<size_t>(width) * sizeof(float));
    }
  });
}

void add_rows(Stream& stream, float* h, int64_t h_stride, const float* delta, int64_t delta_stride, int64_t rows,
              int64_t width) {
  const KernelTimer timer(stream, KernelKind::kPointwise);
  stream.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* to = h + row * h_stride;
      const float* from = delta + row * delta_stride;
      for (int64_t i = 0; i < width; ++i)
        to[i] += from[i];
    }
  });
}

}  // namespace krait::kernels
