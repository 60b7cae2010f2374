#include "kernels/conv/causal_conv1d.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

using Runs = std::vector<Run>;  // within a test, Run alone means testing::Test::Run

struct Problem final {
  Problem(int64_t channels_in, int64_t kernel_in, int64_t rows_in, int64_t slots, bool with_bias, uint64_t seed)
      : channels(channels_in), kernel(kernel_in), rows(rows_in) {
    SplitMix64 rng(seed);
    padded = padded_channels(channels);
    stride = padded + 16;
    slot_stride = (kernel - 1) * padded + 32;
    x = random_floats(rng, rows * stride, -3, 3);
    weight = random_floats(rng, kernel * padded, -1, 1);
    clear_padding(weight, channels, padded);
    if (with_bias) {
      bias = random_floats(rng, padded, -1, 1);
      clear_padding(bias, channels, padded);
    }
    state = random_floats(rng, slots * slot_stride, -3, 3);
    out.assign(static_cast<size_t>(rows * stride), 0.0f);
  }

  CausalConv1dArgs args(std::span<const Run> runs, std::span<const Tap> taps = {}) {
    return {.channels = padded,
            .kernel = kernel,
            .x = x.data(),
            .x_stride = stride,
            .weight = weight.data(),
            .bias = bias.empty() ? nullptr : bias.data(),
            .state = state.data(),
            .slot_stride = slot_stride,
            .out = out.data(),
            .out_stride = stride,
            .runs = runs,
            .taps = taps};
  }

  std::span<const float> slot(int32_t index) const {
    return std::span(state).subspan(static_cast<size_t>(index * slot_stride),
                                    static_cast<size_t>((kernel - 1) * padded));
  }

  int64_t channels, kernel, rows, padded, stride, slot_stride;
  std::vector<float> x, weight, bias, state, out;
};

/// The formula in double for row `i` of a run.
double truth(const Problem& p, const Run& run, int64_t i, int64_t c) {
  double sum = p.bias.empty() ? 0.0 : static_cast<double>(p.bias[static_cast<size_t>(c)]);
  for (int64_t j = 0; j < p.kernel; ++j) {
    const int64_t from = i - (p.kernel - 1) + j;
    double input = 0.0;
    if (from >= 0) {
      input = static_cast<double>(p.x[static_cast<size_t>((run.row_begin + from) * p.stride + c)]);
    } else if (run.in_slot >= 0) {
      input = static_cast<double>(p.slot(run.in_slot)[static_cast<size_t>((p.kernel - 1 + from) * p.padded + c)]);
    }
    sum += static_cast<double>(p.weight[static_cast<size_t>(j * p.padded + c)]) * input;
  }
  return sum / (1.0 + std::exp(-sum));
}

class CausalConv1dShapes : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(CausalConv1dShapes, AllPathsWithinTheTruthAndAlike) {
  const auto [channels, kernel] = GetParam();
  const Runs runs = {{0, 13, -1, 0}, {13, 1, 1, 1}, {14, 2, 2, 3}, {16, 4, -1, 4}};
  for (const bool with_bias : {false, true}) {
    const Problem before(channels, kernel, 20, 5, with_bias, 7);
    Problem reference = before;
    causal_conv1d_reference(reference.args(runs));
    Problem first = before;
    for (const CpuPath path : runnable_paths()) {
      for (const int threads : {1, 3}) {
        Problem p = before;
        causal_conv1d(*make_stream(path, threads), p.args(runs));
        if (path == CpuPath::kPortable && threads == 1) first = p;
        EXPECT_EQ(different_bits(first.out, p.out), 0) << cpu_path_name(path) << " " << threads;
        EXPECT_EQ(different_bits(first.state, p.state), 0) << cpu_path_name(path) << " " << threads;
      }
    }
    EXPECT_EQ(different_bits(reference.state, first.state), 0) << "states are copies of inputs";
    double worst = 0;
    for (const auto& run : runs) {
      for (int64_t i = 0; i < run.rows; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto at = static_cast<size_t>((run.row_begin + i) * before.stride + c);
          const double expected = truth(before, run, i, c);
          EXPECT_NEAR(static_cast<double>(reference.out[at]), expected, 5e-6);
          worst = std::max(worst, std::abs(static_cast<double>(first.out[at]) - expected));
        }
        for (int64_t c = channels; c < before.padded; ++c) {
          EXPECT_EQ(first.out[static_cast<size_t>((run.row_begin + i) * before.stride + c)], 0.0f) << "padding";
        }
      }
    }
    EXPECT_LT(worst, 5e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CausalConv1dShapes,
                         testing::Combine(testing::Values(1, 5, 16, 43, 128, 1536),
                                          testing::Values(2, 3, 4, 5, 6, 7, 8)),
                         [](const auto& info) {
                           return fmt::format("c{}_k{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

class CausalConv1dKernels : public testing::TestWithParam<int64_t> {};

TEST_P(CausalConv1dKernels, AnyCutIntoCallsGivesTheSameBitsAlsoInPlace) {
  constexpr int32_t kRows = 47;
  const Problem before(200, GetParam(), kRows, 3, true, 9);  // more blocks and rows than a tile has
  const Runs all = {{0, kRows, 0, 1}};
  Problem whole = before;
  causal_conv1d(*make_stream(best_cpu_path()), whole.args(all));
  SplitMix64 rng(2);
  for (const CpuPath path : runnable_paths()) {
    for (int round = 0; round < 6; ++round) {
      Problem p = before;
      int32_t slot = 0;
      for (int32_t row = 0; row < kRows;) {
        const auto rows = std::min(kRows - row, static_cast<int32_t>(1 + rng.below(round == 0 ? 1 : 11)));
        const int32_t next = row + rows == kRows ? 1 : static_cast<int32_t>(1 + rng.below(2));
        const Runs run = {{row, rows, slot, next}};
        CausalConv1dArgs args = p.args(run);
        if (round % 2 == 1) args.out = p.x.data();
        causal_conv1d(*make_stream(path, 1 + round % 2), args);
        slot = next;
        row += rows;
      }
      for (int64_t row = 0; row < kRows; ++row) {
        const auto of = [&](const std::vector<float>& v) {
          return std::span(v).subspan(static_cast<size_t>(row * p.stride), static_cast<size_t>(p.padded));
        };
        ASSERT_EQ(different_bits(of(whole.out), of(round % 2 == 1 ? p.x : p.out)), 0) << cpu_path_name(path);
      }
      EXPECT_EQ(different_bits(whole.slot(1), p.slot(1)), 0);
      EXPECT_EQ(different_bits(before.slot(0), p.slot(0)), 0) << "the input slot is only read";
    }
  }
}

TEST_P(CausalConv1dKernels, TapsHoldTheStateAfterTheirRowAndNothingElseIsWritten) {
  const Problem before(24, GetParam(), 12, 6, true, 13);
  const Runs runs = {{0, 4, 5, -1}, {4, 8, 0, -1}};
  const std::vector<Tap> taps = {{4, 1}, {6, 2}, {6, 4}, {11, 3}};
  Problem reference = before;
  causal_conv1d_reference(reference.args(runs, taps));
  for (const CpuPath path : runnable_paths()) {
    Problem p = before;
    causal_conv1d(*make_stream(path, 2), p.args(runs, taps));
    EXPECT_EQ(different_bits(reference.state, p.state), 0) << cpu_path_name(path);
    EXPECT_EQ(different_bits(before.slot(0), p.slot(0)), 0);
    EXPECT_EQ(different_bits(before.slot(5), p.slot(5)), 0);
    EXPECT_NE(different_bits(before.slot(2), p.slot(2)), 0);
    EXPECT_EQ(different_bits(p.slot(4), p.slot(2)), 0);
  }
}

TEST_P(CausalConv1dKernels, ARowDoesNotSeeItsNeighbours) {
  const Problem before(40, GetParam(), 30, 8, true, 17);
  const Runs alone = {{11, 6, 2, 2}};
  const Runs crowd = {{0, 5, -1, 0}, {5, 6, 1, 1}, {11, 6, 2, 2}, {17, 1, 3, 4}, {18, 12, 5, 6}};
  for (const CpuPath path : runnable_paths()) {
    Problem a = before, b = before;
    causal_conv1d(*make_stream(path), a.args(alone));
    causal_conv1d(*make_stream(path, 4), b.args(crowd));
    const auto rows_of = [&](const Problem& p) {
      return std::span(p.out).subspan(static_cast<size_t>(11 * p.stride), static_cast<size_t>(6 * p.stride));
    };
    EXPECT_EQ(different_bits(rows_of(a), rows_of(b)), 0) << cpu_path_name(path);
    EXPECT_EQ(different_bits(a.slot(2), b.slot(2)), 0) << cpu_path_name(path);
  }
}

INSTANTIATE_TEST_SUITE_P(KernelSizes, CausalConv1dKernels, testing::Values(2, 4, 8));

}  // namespace
}  // namespace krait::kernels
