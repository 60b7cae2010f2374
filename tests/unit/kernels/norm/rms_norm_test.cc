#include "kernels/norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/pointwise/rows.h"
#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

class RmsNormWidths : public testing::TestWithParam<int64_t> {};

TEST_P(RmsNormWidths, AllPathsWithinTheTruthAndAlike) {
  const int64_t width = GetParam(), stride = width + 3, rows = 9;
  SplitMix64 rng(1);
  const std::vector<float> x = random_floats(rng, rows * stride, -3, 5);
  const std::vector<float> weight = random_floats(rng, width, -1, 2);
  for (const float* used_weight : {weight.data(), static_cast<const float*>(nullptr)}) {
    std::vector<float> first, reference(x.size(), 0.0f);
    RmsNormArgs args = {rows, width, x.data(), stride, used_weight, 1e-5f, reference.data(), stride};
    rms_norm_reference(args);
    for (const CpuPath path : runnable_paths()) {
      for (const int threads : {1, 2}) {
        std::vector<float> out(x.size(), 0.0f), in_place = x;
        args.x = x.data();
        args.out = out.data();
        rms_norm(*make_stream(path, threads), args);
        if (first.empty()) first = out;
        EXPECT_EQ(different_bits(first, out), 0) << cpu_path_name(path);
        args.x = args.out = in_place.data();
        rms_norm(*make_stream(path, threads), args);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < width; ++i) {
            const auto at = static_cast<size_t>(row * stride + i);
            ASSERT_EQ(out[at], in_place[at]);
          }
        }
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i)
        sum += std::pow(static_cast<double>(x[static_cast<size_t>(row * stride + i)]), 2);
      for (int64_t i = 0; i < stride; ++i) {
        const auto at = static_cast<size_t>(row * stride + i);
        if (i >= width) {
          EXPECT_EQ(first[at], 0.0f) << "nothing is written beside the row";
          continue;
        }
        const double w = used_weight != nullptr ? static_cast<double>(weight[static_cast<size_t>(i)]) : 1.0;
        const double expected = w * static_cast<double>(x[at]) / std::sqrt(sum / static_cast<double>(width) + 1e-5);
        EXPECT_NEAR(static_cast<double>(first[at]), expected, 1e-6 * std::max(1.0, std::abs(expected)));
        EXPECT_NEAR(static_cast<double>(reference[at]), expected, 4e-6 * std::max(1.0, std::abs(expected)));
      }
    }
  }
}

TEST_P(RmsNormWidths, FusedAdditionHasTheBitsOfTheTwoSteps) {
  const int64_t width = GetParam(), stride = width + 5, rows = 6;
  SplitMix64 rng(2);
  const std::vector<float> h = random_floats(rng, rows * stride, -3, 5);
  const std::vector<float> delta = random_floats(rng, rows * stride, -1, 1);
  const std::vector<float> weight = random_floats(rng, width, -1, 2);
  for (const CpuPath path : runnable_paths()) {
    const auto stream = make_stream(path, 2);
    std::vector<float> two = h, two_out(h.size(), 0.0f), one = h, one_out(h.size(), 0.0f), over_delta = delta;
    add_rows(*stream, two.data(), stride, delta.data(), stride, rows, width);
    rms_norm(*stream, {rows, width, two.data(), stride, weight.data(), 1e-5f, two_out.data(), stride});
    add_rms_norm(*stream,
                 {rows, width, one.data(), stride, delta.data(), stride, weight.data(), 1e-5f, one_out.data(), stride});
    EXPECT_EQ(different_bits(two, one), 0) << cpu_path_name(path);
    EXPECT_EQ(different_bits(two_out, one_out), 0) << cpu_path_name(path);
    one = h;
    add_rms_norm(*stream, {rows, width, one.data(), stride, over_delta.data(), stride, weight.data(), 1e-5f,
                           over_delta.data(), stride});
    EXPECT_EQ(over_delta[0], one_out[0]);
    EXPECT_EQ(over_delta[static_cast<size_t>(width - 1)], one_out[static_cast<size_t>(width - 1)]);
  }
}

TEST_P(RmsNormWidths, ARowDoesNotSeeItsNeighbours) {
  const int64_t width = GetParam();
  SplitMix64 rng(3);
  std::vector<float> x = random_floats(rng, 5 * width, -3, 5);
  std::vector<float> among(x.size()), alone(static_cast<size_t>(width));
  const auto stream = make_stream(best_cpu_path(), 3);
  rms_norm(*stream, {5, width, x.data(), width, nullptr, 1e-5f, among.data(), width});
  rms_norm(*stream, {1, width, x.data() + 3 * width, width, nullptr, 1e-5f, alone.data(), width});
  EXPECT_EQ(different_bits(std::span(among).subspan(static_cast<size_t>(3 * width), alone.size()), alone), 0);
}

INSTANTIATE_TEST_SUITE_P(Widths, RmsNormWidths, testing::Values(1, 5, 16, 43, 63, 64, 65, 128, 768, 1000, 2560));

}  // namespace
}  // namespace krait::kernels
