#include <cstring>

#include "common/tensor/stored_values.h"
#include "kernels/pointwise/rows.h"

namespace krait::kernels {
void widen_rows(Stream& stream, const std::byte* rows, DType dtype, int64_t count, int64_t width, float* out,
                int64_t out_stride) {
  const KernelTimer timer(stream, KernelKind::kPointwise);
  const int64_t row_bytes = stored_bytes(dtype, width);
  stream.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      widen(dtype, rows + row * row_bytes, {out + row * out_stride, static_cast<size_t>(width)});
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
