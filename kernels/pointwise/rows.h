// Whole rows: the embedding look-up, picking rows out of a batch, addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/dtype.h"
#include "kernels/device/stream.h"

namespace krait::kernels {

/// out[t][i] = float32 of table[ids[t]][i]. The conversion is exact.
struct EmbedRowsArgs final {
  std::span<const int32_t> ids;      // one a row, each in [0, entries)
  const std::byte* table = nullptr;  // [entries][width] of dtype, row-major, at any alignment (a mapped file)
  DType dtype = DType::kF32;         // kF32, kBF16 or kF16
  int64_t entries = 0;
  int64_t width = 0;
  float* out = nullptr;    // [ids.size()][out_stride]
  int64_t out_stride = 0;  // floats
};

void embed_rows(Stream& stream, const EmbedRowsArgs& args);

/// out[i][0..width) = x[rows[i]][0..width): the rows whose logits are wanted.
void gather_rows(Stream& stream, const float* x, int64_t x_stride, std::span<const int32_t> rows, int64_t width,
                 float* out, int64_t out_stride);

/// h[t][i] += delta[t][i] for t in [0, rows), i in [0, width).
void add_rows(Stream& stream, float* h, int64_t h_stride, const float* delta, int64_t delta_stride, int64_t rows,
              int64_t width);

}  // namespace krait::kernels
