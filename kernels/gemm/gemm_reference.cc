#include "kernels/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

/// A row of quantized weights as it is stored.
struct IntegerRow final {
  std::vector<int32_t> integers;
  std::vector<float> scales;
};

/// One group of activations as integers: the scale, then to[i]. With the library's own rounding.
float quantized(const float* a, int64_t count, int32_t* to) {
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(a[i]);
    largest = std::max(largest, std::abs(a[i]));
  }
  const bool zeros = !finite || largest < 0x1p-100f;
  const float inverse = zeros ? 0.0f : 127.0f / largest;
  for (int64_t i = 0; i < count; ++i)
    to[i] = zeros ? 0 : static_cast<int32_t>(std::nearbyint(a[i] * inverse));
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return zeros ? 0.0f : largest / 127.0f;
}

float integer_leaf_sum(DType dtype, const float* a, const IntegerRow& w, int64_t begin, int64_t k) {
  const int64_t group_k = dtype == DType::kI8 ? 64 : 32;
  float sum = 0.0f;
  for (int64_t first = begin; first < begin + k; first += group_k) {
    const int64_t count = std::min(group_k, begin + k - first);
    std::vector<int32_t> levels(static_cast<size_t>(count));
    const float scale = quantized(a + first, count, levels.data());
    int64_t products = 0;
    for (int64_t i = 0; i < count; ++i)
      products += int64_t{levels[static_cast<size_t>(i)]} * w.integers[static_cast<size_t>(first + i)];
    sum = std::fma(scale * w.scales[static_cast<size_t>(first)], static_cast<float>(products), sum);
  }
  return sum;
}

/// A row of activations as the product sees them.
std::vector<double> operands(const PackedMatrix& weights, const float* a) {
  std::vector<double> all;
  if (!is_quantized(weights.dtype)) {
    for (int64_t i = 0; i < weights.k; ++i)
      all.push_back(static_cast<double>(rounded(a[i], weights.dtype)));
    return all;
  }
  const int64_t group_k = weights.dtype == DType::kI8 ? 64 : 32;
  while (std::ssize(all) < weights.k) {
    const int64_t left_of_leaf = weights.leaf_k() - std::ssize(all) % weights.leaf_k();
    std::vector<int32_t> levels(static_cast<size_t>(std::min(group_k, left_of_leaf)));
    const float scale = quantized(a + all.size(), std::ssize(levels), levels.data());
    for (const int32_t level : levels)
      all.push_back(static_cast<double>(scale) * level);
  }
  return all;
}

/// Leaves [begin, begin + count), count a power of two, each summed by leaf(its number).
template <class Leaf>
float tree_sum(int begin, int count, const Leaf& leaf) {
  if (count == 1) return leaf(begin);
  const float left = tree_sum(begin, count / 2, leaf);
  const float right = tree_sum(begin + count / 2, count / 2, leaf);
  return left + right;
}

/// A column of weights, for products with many rows.
class Column final {
 public:
  Column(const PackedMatrix& weights, int64_t column) : weights_(weights), row_(static_cast<size_t>(weights.k)) {
    unpack_row(weights, column, row_.data());
    if (!is_quantized(weights_.dtype)) return;
    integers_ = {std::vector<int32_t>(row_.size()), std::vector<float>(row_.size())};
    unpack_integers(weights, column, integers_.integers.data(), integers_.scales.data());
  }

  float product(const float* a) const {
    const int64_t leaf_k = weights_.k / weights_.leaves;
    return tree_sum(0, weights_.leaves, [&](int leaf) {
      const int64_t begin = leaf * leaf_k;
      return is_quantized(weights_.dtype) ? integer_leaf_sum(weights_.dtype, a, integers_, begin, leaf_k)
                                          : leaf_sum(weights_.dtype, a + begin, row_.data() + begin, leaf_k);
    });
  }

 private:
  const PackedMatrix& weights_;
  std::vector<float> row_;
  IntegerRow integers_;
};

}  // namespace

void gemm_reference(const GemmArgs& args, int64_t row_begin, int64_t row_end) {
  const PackedMatrix& weights = *args.weights;
  const int64_t column_end = args.column_end < 0 ? weights.n : args.column_end;
  for (int64_t column = args.column_begin; column < column_end; ++column) {
    const Column w(weights, column);
    for (int64_t row = row_begin; row < row_end; ++row) {
      float sum = w.product(args.a + row * args.lda);
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
  const std::vector<double> a = operands(weights, args.a + row * args.lda);
  ExactProduct exact;
  for (size_t i = 0; i < a.size(); ++i) {
    const double product = a[i] * static_cast<double>(w[i]);
    exact.value += product;
    exact.magnitude += std::abs(product);
  }
  if (args.bias != nullptr) exact.value += static_cast<double>(args.bias[column]);
  return exact;
}

}  // namespace krait::kernels
