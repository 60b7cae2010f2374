// The two halves of an RMS norm whose width is shared by ranks: sums of squares, and the scale made of their total.
#pragma once

#include <cstdint>

#include "kernels/device/stream.h"

namespace krait::kernels {

/// sums[t] = sum over i in [0, width) of x[t][i]^2: the width is cut into `leaves` equal leaves, each summed in an
/// order that depends on its width alone, and the leaves are added as a balanced tree. So ranks that hold equal runs of
/// leaves get, when their sums are added as a tree, the bits of one rank that holds them all. Then x[t][i] *= weight[i]
/// where a weight is given (the scale can follow after a product, because it is one number a row).
struct SumSquaresArgs final {
  int64_t rows = 0;
  int64_t width = 0;
  int leaves = 1;      // 1, 2, 4 or 8; divides width
  float* x = nullptr;  // [rows][x_stride]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [width] or null
  float* sums = nullptr;          // sums[t * sum_stride]
  int64_t sum_stride = 0;
};

void sum_squares(Stream& stream, const SumSquaresArgs& args);

/// x[t][i] = (x[t][i] * (1 / sqrt(sums[t] / count + eps))) * weight[i], i in [0, width).
struct ScaleByRootMeanArgs final {
  int64_t rows = 0;
  int64_t width = 0;
  float* x = nullptr;  // [rows][x_stride]
  int64_t x_stride = 0;
  const float* sums = nullptr;  // sums[t * sum_stride]; may lie in x's rows behind `width`
  int64_t sum_stride = 0;
  int64_t count = 1;  // elements that were squared, over all ranks
  float eps = 1e-5f;
  const float* weight = nullptr;  // [width] or null for ones
};

void scale_by_root_mean(Stream& stream, const ScaleByRootMeanArgs& args);

/// Plain float32, leaves in the order of i. For tests.
void sum_squares_reference(const SumSquaresArgs& args);
void scale_by_root_mean_reference(const ScaleByRootMeanArgs& args);

}  // namespace krait::kernels
