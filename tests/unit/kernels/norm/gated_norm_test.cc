#include "kernels/norm/gated_norm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

constexpr int64_t kRows = 5;

SumSquaresArgs sum_args(std::vector<float>& x, int64_t width, int64_t stride, int leaves, const float* weight,
                        std::vector<float>& sums) {
  return {.rows = kRows,
          .width = width,
          .leaves = leaves,
          .x = x.data(),
          .x_stride = stride,
          .weight = weight,
          .sums = sums.data(),
          .sum_stride = 2};
}

class GatedNorm : public testing::TestWithParam<std::tuple<int64_t, int>> {};

TEST_P(GatedNorm, SumAndScaleAreTheNormOnEveryPath) {
  const auto [leaf, leaves] = GetParam();
  const int64_t width = leaf * leaves, stride = width + 3;
  SplitMix64 rng(1);
  const std::vector<float> before = random_floats(rng, kRows * stride, -3, 5);
  const std::vector<float> weight = random_floats(rng, width, -1, 2);
  std::vector<float> first, first_sums;
  for (const CpuPath path : runnable_paths()) {
    for (const int threads : {1, 2}) {
      std::vector<float> x = before, sums(2 * kRows, 7.0f);
      sum_squares(*make_stream(path, threads), sum_args(x, width, stride, leaves, nullptr, sums));
      EXPECT_EQ(different_bits(before, x), 0) << "without a weight nothing changes";
      scale_by_root_mean(*make_stream(path, threads), {.rows = kRows,
                                                       .width = width,
                                                       .x = x.data(),
                                                       .x_stride = stride,
                                                       .sums = sums.data(),
                                                       .sum_stride = 2,
                                                       .count = width,
                                                       .eps = 1e-5f,
                                                       .weight = weight.data()});
      if (first.empty()) {
        first = x;
        first_sums = sums;
      }
      EXPECT_EQ(different_bits(first, x), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(first_sums, sums), 0) << cpu_path_name(path);
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += std::pow(double{before[static_cast<size_t>(row * stride + i)]}, 2);
    EXPECT_NEAR(double{first_sums[static_cast<size_t>(2 * row)]}, sum, 2e-6 * sum);
    EXPECT_EQ(first_sums[static_cast<size_t>(2 * row + 1)], 7.0f) << "nothing is written beside the sum";
    for (int64_t i = 0; i < stride; ++i) {
      const auto at = static_cast<size_t>(row * stride + i);
      const double scaled = double{before[at]} / std::sqrt(sum / static_cast<double>(width) + 1e-5);
      const double expected = i < width ? scaled * double{weight[static_cast<size_t>(i)]} : double{before[at]};
      EXPECT_NEAR(double{first[at]}, expected, 2e-6 * std::max(1.0, std::abs(expected)));
    }
  }
}

TEST_P(GatedNorm, RanksThatHoldSomeLeavesGetTheBitsOfOneThatHoldsAll) {
  const auto [leaf, leaves] = GetParam();
  const int64_t width = leaf * leaves;
  SplitMix64 rng(2);
  std::vector<float> x = random_floats(rng, kRows * width, -3, 5);
  const std::vector<float> weight = random_floats(rng, width, -1, 2);
  std::vector<float> whole(2 * kRows), low(2 * kRows), high(2 * kRows);
  const auto stream = make_stream(best_cpu_path());
  std::vector<float> weighted = x;
  sum_squares(*stream, sum_args(weighted, width, width, leaves, weight.data(), whole));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(weighted[i], x[i] * weight[i % static_cast<size_t>(width)]);
  if (leaves == 1) return;
  SumSquaresArgs half = sum_args(x, width / 2, width, leaves / 2, nullptr, low);
  sum_squares(*stream, half);
  half.x += width / 2;
  half.sums = high.data();
  sum_squares(*stream, half);
  for (size_t row = 0; row < kRows; ++row)
    EXPECT_EQ(low[2 * row] + high[2 * row], whole[2 * row]);
}

TEST_P(GatedNorm, TheReferenceAgrees) {
  const auto [leaf, leaves] = GetParam();
  const int64_t width = leaf * leaves;
  SplitMix64 rng(3);
  const std::vector<float> before = random_floats(rng, kRows * width, -3, 5);
  const std::vector<float> weight = random_floats(rng, width, -1, 2);
  std::vector<float> x = before, y = before, x_sums(2 * kRows), y_sums(2 * kRows);
  const auto stream = make_stream(best_cpu_path());
  sum_squares(*stream, sum_args(x, width, width, leaves, weight.data(), x_sums));
  sum_squares_reference(sum_args(y, width, width, leaves, weight.data(), y_sums));
  EXPECT_EQ(different_bits(x, y), 0);
  ScaleByRootMeanArgs scale{.rows = kRows,
                            .width = width,
                            .x = x.data(),
                            .x_stride = width,
                            .sums = y_sums.data(),
                            .sum_stride = 2,
                            .count = width,
                            .weight = weight.data()};
  scale_by_root_mean(*stream, scale);
  scale.x = y.data();
  scale_by_root_mean_reference(scale);
  EXPECT_EQ(different_bits(x, y), 0);
  for (size_t row = 0; row < kRows; ++row)
    EXPECT_NEAR(x_sums[2 * row], y_sums[2 * row], 1e-6f * static_cast<float>(width) * y_sums[2 * row]);
}

INSTANTIATE_TEST_SUITE_P(Widths, GatedNorm,
                         testing::Combine(testing::Values(1, 5, 16, 64, 129, 320), testing::Values(1, 2, 4, 8)),
                         [](const auto& info) {
                           return fmt::format("leaf{}_x{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

}  // namespace
}  // namespace krait::kernels
