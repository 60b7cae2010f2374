// Whole rows: to float32, picking rows out of a batch, addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/dtype.h"
#include "kernels/device/stream.h"

namespace krait::kernels {

/// out[t][i] = float32 of rows[t][i]. The conversion is exact. `rows` is [count][width] of a type of
/// weights (stored_values.h), row-major, at any alignment (as a file has it).
void widen_rows(Stream& stream, const std::byte* rows, DType dtype, int64_t count, int64_t width, float* out,
                int64_t out_stride);

/// out[i][0..width) = x[rows[i]][0..width): the rows whose logits are wanted.
void gather_rows(Stream& stream, const float* x, int64_t x_stride, std::span<const int32_t> rows, int64_t width,
                 float* out, int64_t out_stride);

/// h[t][i] += delta[t][i] for t in [0, rows), i in [0, width).
void add_rows(Stream& stream, float* h, int64_t h_stride, const float* delta, int64_t delta_stride, int64_t rows,
              int64_t width);

}  // namespace krait::kernels
