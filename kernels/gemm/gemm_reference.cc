#include "kernels/gemm/gemm_reference.h"

#include <cmath>
#include <vector>

#include "common/tensor/half.h"
#include "kernels/gemm/bf16_rounding.h"

namespace krait::kernels {
namespace {

/// Activations as the product sees them.
float rounded(float value, DType dtype) {
  return dtype == DType::kBF16 ? bf16_to_f32(round_to_bf16(value)) : value;
}

float leaf_sum(DType dtype, const float* a, const float* w, int64_t k) {
  float sum = 0.0f;
  if (dtype == DType::kF32) {
    for (int64_t i = 0; i < k; ++i)
      sum = std::fma(a[i], w[i], sum);
    return sum;
  }
  for (int64_t i = 0; i < k; i += 2) {
    if (i + 1 < k) sum = std::fma(rounded(a[i + 1], dtype), w[i + 1], sum);
    sum = std::fma(rounded(a[i], dtype), w[i], sum);
  }
  return sum;
}

/// Leaves [begin, begin + count), count a power of two.
float tree_sum(const PackedMatrix& weights, const float* a, const float* w, int begin, int count) {
  const int64_t leaf_k = weights.k / weights.leaves;
  if (count == 1) return leaf_sum(weights.dtype, a + begin * leaf_k, w + begin * leaf_k, leaf_k);
  const float left = tree_sum(weights, a, w, begin, count / 2);
  const float right = tree_sum(weights, a, w, begin + count / 2, count / 2);
  return left + right;
}

}  // namespace

void gemm_reference(const GemmArgs& args, int64_t row_begin, int64_t row_end) {
  const PackedMatrix& weights = *args.weights;
  const int64_t column_end = args.column_end < 0 ? weights.n : args.column_end;
  std::vector<float> w(static_cast<size_t>(weights.k));
  for (int64_t column = args.column_begin; column < column_end; ++column) {
    unpack_row(weights, column, w.data());
    for (int64_t row = row_begin; row < row_end; ++row) {
      float sum = tree_sum(weights, args.a + row * args.lda, w.data(), 0, weights.leaves);
      if (args.bias != nullptr) sum += args.bias[column];
      float& out = args.out[row * args.ldo + column - args.column_begin];
      out = args.accumulate ? out + sum : sum;
    }
  }
}

ExactProduct gemm_exact(const GemmArgs& args, int64_t row, int64_t column) {
  const PackedMatrix& weights = *args.weights;
  std::vector<float> w(static_cast<size_t>(weights.k));
  unpack_row(weights, column, w.data());
  ExactProduct exact;
  for (int64_t i = 0; i < weights.k; ++i) {
    const double product = static_cast<double>(rounded(args.a[row * args.lda + i], weights.dtype)) *
                           static_cast<double>(w[static_cast<size_t>(i)]);
    exact.value += product;
    exact.magnitude += std::abs(product);
  }
  if (args.bias != nullptr) exact.value += static_cast<double>(args.bias[column]);
  return exact;
}

}  // namespace krait::kernels
