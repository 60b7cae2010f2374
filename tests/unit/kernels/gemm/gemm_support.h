// Random products and bit-for-bit comparison for the tests of gemm.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "kernels/device/arena.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_reference.h"

namespace krait::kernels {

inline std::vector<float> random_values(int64_t count, uint64_t seed, double scale = 1.0) {
  SplitMix64 random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = static_cast<float>((random.uniform() * 2.0 - 1.0) * scale);
  return values;
}

/// Every path that this processor can run.
inline std::vector<CpuPath> paths_here() {
  std::vector<CpuPath> paths;
  for (int path = 0; path <= static_cast<int>(best_cpu_path()); ++path)
    paths.push_back(static_cast<CpuPath>(path));
  return paths;
}

/// Weights [n][k], whole or only columns [k_begin, k_end) of them, packed.
class PackedWeights final {
 public:
  PackedWeights(const std::vector<float>& rows, DType dtype, int64_t n, int64_t k, int leaves)
      : PackedWeights(rows, dtype, n, k, leaves, 0, k) {}

  PackedWeights(const std::vector<float>& rows, DType dtype, int64_t n, int64_t k, int leaves, int64_t k_begin,
                int64_t k_end)
      : matrix_{.dtype = dtype, .n = n, .k = k_end - k_begin, .leaves = leaves} {
    Result<std::byte*> data = arena_.allocate(packed_bytes(dtype, n, matrix_.k, leaves));
    CHECK(data.ok());
    matrix_.data = *data;
    for (int64_t i = 0; i < n; ++i)
      pack_row(matrix_, i, rows.data() + i * k + k_begin);
  }

  const PackedMatrix& matrix() const { return matrix_; }

 private:
  Arena arena_;
  PackedMatrix matrix_;
};

/// Workspace for the largest product of a test.
class Workspace final {
 public:
  explicit Workspace(int64_t bytes) {
    Result<std::byte*> data = arena_.allocate(bytes);
    CHECK(data.ok());
    span_ = {*data, static_cast<size_t>(bytes)};
  }
  std::span<std::byte> span() const { return span_; }

 private:
  Arena arena_;
  std::span<std::byte> span_;
};

/// gemm of rows [row, row + m) of a, into a tight [m][n].
inline std::vector<float> product(Stream& stream, const PackedMatrix& weights, const std::vector<float>& a, int64_t row,
                                  int64_t m, const Workspace& workspace) {
  std::vector<float> out(static_cast<size_t>(m * weights.n), -1.0f);
  gemm(stream, {.a = a.data() + row * weights.k,
                .lda = weights.k,
                .m = m,
                .weights = &weights,
                .out = out.data(),
                .ldo = weights.n,
                .workspace = workspace.span()});
  return out;
}

/// Rows [row_begin, row_end) by the reference, in place within [m][n].
inline std::vector<float> reference(const PackedMatrix& weights, const std::vector<float>& a, int64_t m,
                                    int64_t row_begin, int64_t row_end) {
  std::vector<float> out(static_cast<size_t>(m * weights.n));
  gemm_reference({.a = a.data(), .lda = weights.k, .m = m, .weights = &weights, .out = out.data(), .ldo = weights.n},
                 row_begin, row_end);
  return out;
}

/// Ranks' results added as an all-reduce of an aligned partition adds them: ((r0 + r1) + (r2 + r3)) + ...
inline std::vector<float> add_as_tree(std::vector<std::vector<float>> ranks) {
  for (size_t width = ranks.size(); width > 1; width /= 2) {
    for (size_t i = 0; i < width / 2; ++i) {
      std::vector<float> sum = std::move(ranks[2 * i]);
      for (size_t e = 0; e < sum.size(); ++e)
        sum[e] += ranks[2 * i + 1][e];
      ranks[i] = std::move(sum);
    }
  }
  return std::move(ranks[0]);
}

/// The first place where bits differ, or an empty string.
inline std::string first_difference(const float* found, const float* wanted, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::bit_cast<uint32_t>(found[i]) != std::bit_cast<uint32_t>(wanted[i])) {
      return fmt::format("element {}: {:.9g} instead of {:.9g}", i, found[i], wanted[i]);
    }
  }
  return "";
}

/// A product of a model: its weights [n][k]; K is cut between ranks, and so in leaves, where channels are summed.
struct Shape final {
  const char* name;
  int64_t n;
  int64_t k;
  int leaves;
};

/// Of mamba-130m and mamba-370m.
inline constexpr Shape kModelShapes[] = {{"130m in_proj", 3072, 768, 1},  {"370m in_proj", 4096, 1024, 1},
                                         {"130m x_proj", 80, 1536, 8},    {"370m x_proj", 96, 2048, 8},
                                         {"130m dt_proj", 1536, 48, 1},   {"370m dt_proj", 2048, 64, 1},
                                         {"130m out_proj", 768, 1536, 8}, {"370m out_proj", 1024, 2048, 8}};

inline constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kI8, DType::kI4};

}  // namespace krait::kernels
