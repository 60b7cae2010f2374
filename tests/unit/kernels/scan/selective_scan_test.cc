#include "kernels/scan/selective_scan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

using Runs = std::vector<Run>;  // within a test, Run alone means testing::Test::Run

/// Inputs of `rows` tokens and `slots` states, with strides wider than they must be.
struct Problem final {
  Problem(int64_t channels_in, int64_t state_size_in, int64_t rows_in, int64_t slots_in, uint64_t seed)
      : channels(channels_in), state_size(state_size_in), rows(rows_in), slots(slots_in) {
    SplitMix64 rng(seed);
    padded = padded_channels(channels);
    stride = padded + 16;
    slot_stride = padded * state_size + 32;
    x = padded_rows(rng, -2, 2);
    z = padded_rows(rng, -4, 4);
    dt_raw = padded_rows(rng, -5, 2);
    b = random_floats(rng, rows * (state_size + 3), -1, 1);
    c = random_floats(rng, rows * (state_size + 3), -1, 1);
    dt_bias = random_floats(rng, padded, -3, 1);
    d = random_floats(rng, padded, -1, 1);
    clear_padding(dt_bias, channels, padded);
    clear_padding(d, channels, padded);
    std::vector<float> plain_a = random_floats(rng, channels * state_size, 0, 4);
    for (float& value : plain_a)
      value = -std::exp2(value);
    a.resize(static_cast<size_t>(padded * state_size));
    to_blocked(plain_a.data(), channels, state_size, a.data());
    state.assign(static_cast<size_t>(slots * slot_stride), 77.0f);
    for (int64_t slot = 0; slot < slots; ++slot) {
      const std::vector<float> plain = random_floats(rng, channels * state_size, -1, 1);
      to_blocked(plain.data(), channels, state_size, state.data() + slot * slot_stride);
    }
    out.assign(static_cast<size_t>(rows * stride), 0.0f);
  }

  std::vector<float> padded_rows(SplitMix64& rng, double low, double high) const {
    std::vector<float> values = random_floats(rng, rows * stride, low, high);
    clear_padding(values, channels, stride);
    return values;
  }

  SelectiveScanArgs args(std::span<const Run> runs, std::span<const Tap> taps = {}) {
    return {.channels = padded,
            .state_size = state_size,
            .x = x.data(),
            .x_stride = stride,
            .z = z.data(),
            .z_stride = stride,
            .dt_raw = dt_raw.data(),
            .dt_stride = stride,
            .dt_bias = dt_bias.data(),
            .b = b.data(),
            .b_stride = state_size + 3,
            .c = c.data(),
            .c_stride = state_size + 3,
            .a = a.data(),
            .d = d.data(),
            .state = state.data(),
            .slot_stride = slot_stride,
            .out = out.data(),
            .out_stride = stride,
            .runs = runs,
            .taps = taps};
  }

  std::span<const float> slot(int32_t index) const {
    return std::span(state).subspan(static_cast<size_t>(index * slot_stride), static_cast<size_t>(padded * state_size));
  }

  int64_t channels, state_size, rows, slots, padded, stride, slot_stride;
  std::vector<float> x, z, dt_raw, b, c, dt_bias, d, a, state, out;
};

/// The recurrence in double for one run and channel: outputs, then the final state.
std::vector<double> truth(const Problem& p, const Run& run, int64_t channel) {
  const auto at = [&](int64_t n) { return static_cast<size_t>((channel / 16 * p.state_size + n) * 16 + channel % 16); };
  std::vector<double> h(static_cast<size_t>(p.state_size), 0.0), result;
  for (int64_t n = 0; n < p.state_size && run.in_slot >= 0; ++n) {
    h[static_cast<size_t>(n)] = static_cast<double>(p.slot(run.in_slot)[at(n)]);
  }
  for (int64_t t = run.row_begin; t < run.row_begin + run.rows; ++t) {
    const auto i = static_cast<size_t>(t * p.stride + channel);
    const auto k = static_cast<size_t>(t * (p.state_size + 3));
    const double dt = std::log1p(std::exp(static_cast<double>(p.dt_raw[i] + p.dt_bias[static_cast<size_t>(channel)])));
    const auto x = static_cast<double>(p.x[i]), z = static_cast<double>(p.z[i]);
    double y = static_cast<double>(p.d[static_cast<size_t>(channel)]) * x;
    for (size_t n = 0; n < h.size(); ++n) {
      h[n] = std::exp2(dt * static_cast<double>(p.a[at(static_cast<int64_t>(n))])) * h[n] +
             dt * x * static_cast<double>(p.b[k + n]);
      y += static_cast<double>(p.c[k + n]) * h[n];
    }
    result.push_back(y * z / (1.0 + std::exp(-z)));
  }
  result.insert(result.end(), h.begin(), h.end());
  return result;
}

/// The largest error of outputs and out-slots against the truth, relative to max(1, |truth|).
double worst_error(const Problem& before, const Problem& after, std::span<const Run> runs) {
  double worst = 0;
  const auto compare = [&worst](float value, double expected) {
    const double error = std::abs(static_cast<double>(value) - expected) / std::max(1.0, std::abs(expected));
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  };
  for (const Run& run : runs) {
    for (int64_t c = 0; c < before.channels; ++c) {
      const std::vector<double> expected = truth(before, run, c);
      for (int64_t i = 0; i < run.rows; ++i) {
        compare(after.out[static_cast<size_t>((run.row_begin + i) * after.stride + c)],
                expected[static_cast<size_t>(i)]);
      }
      for (int64_t n = 0; n < before.state_size; ++n) {
        const int64_t at = (c / 16 * before.state_size + n) * 16 + c % 16;
        compare(after.slot(run.out_slot)[static_cast<size_t>(at)], expected[static_cast<size_t>(run.rows + n)]);
      }
    }
  }
  return worst;
}

class SelectiveScanShapes : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {};

TEST_P(SelectiveScanShapes, AllPathsWithinTheTruthAndAlike) {
  const auto [channels, state_size] = GetParam();
  const Runs runs = {{0, 9, -1, 0}, {9, 1, 1, 1}, {10, 2, 2, 3}, {12, 7, 4, 4}};
  const Problem before(channels, state_size, 20, 6, 11);
  Problem reference = before;
  selective_scan_reference(reference.args(runs));
  const double reference_error = worst_error(before, reference, runs);
  const double tolerance = 1e-6 + 1.5e-7 * static_cast<double>(state_size);  // N terms of size 1, in float32
  EXPECT_LT(reference_error, tolerance);
  Problem first = before;
  for (const CpuPath path : runnable_paths()) {
    for (const int threads : {1, 3}) {
      Problem p = before;
      selective_scan(*make_stream(path, threads), p.args(runs));
      if (path == CpuPath::kPortable && threads == 1) first = p;
      EXPECT_EQ(different_bits(first.out, p.out), 0) << cpu_path_name(path) << " " << threads;
      EXPECT_EQ(different_bits(first.state, p.state), 0) << cpu_path_name(path) << " " << threads;
    }
  }
  const double error = worst_error(before, first, runs);
  fmt::print("  error {:.2g}, of the reference {:.2g}, of {:.2g}\n", error, reference_error, tolerance);
  EXPECT_LT(error, tolerance);
  for (int64_t row = 0; row < 19; ++row) {
    for (int64_t c = channels; c < before.padded; ++c) {
      EXPECT_EQ(first.out[static_cast<size_t>(row * before.stride + c)], 0.0f) << "padding";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SelectiveScanShapes,
                         testing::Combine(testing::Values(1, 5, 16, 43, 128, 1536), testing::Values(1, 5, 16, 64, 128)),
                         [](const auto& info) {
                           return fmt::format("c{}_n{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

TEST(SelectiveScan, AFactorOfAChannelScalesItsOutputsAndNothingElse) {
  const Runs runs = {{0, 9, -1, 0}, {9, 1, 1, 1}, {10, 2, 2, 3}};
  for (const int64_t state_size : {5, 16}) {
    const Problem before(43, state_size, 20, 6, 12);
    std::vector<float> scale;
    for (int64_t channel = 0; channel < before.padded; ++channel)
      scale.push_back(std::exp2(static_cast<float>(channel % 7) - 4));  // powers of two: the product is exact
    Problem expected = before;
    selective_scan(*make_stream(CpuPath::kPortable), expected.args(runs));
    for (int64_t row = 0; row < 12; ++row) {
      for (int64_t channel = 0; channel < before.padded; ++channel)
        expected.out[static_cast<size_t>(row * before.stride + channel)] *= scale[static_cast<size_t>(channel)];
    }
    for (const CpuPath path : runnable_paths()) {
      Problem p = before;
      auto args = p.args(runs);
      args.out_scale = scale.data();
      selective_scan(*make_stream(path, 2), args);
      EXPECT_EQ(different_bits(expected.out, p.out), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(expected.state, p.state), 0) << cpu_path_name(path);
    }
    Problem plain = before, reference = before;
    selective_scan_reference(plain.args(runs));
    auto args = reference.args(runs);
    args.out_scale = scale.data();
    selective_scan_reference(args);
    for (int64_t i = 0; i < 12 * before.stride; ++i) {
      const auto channel = static_cast<size_t>(std::min(i % before.stride, before.padded - 1));
      EXPECT_EQ(reference.out[static_cast<size_t>(i)], plain.out[static_cast<size_t>(i)] * scale[channel]);
    }
  }
}

class SelectiveScanStates : public testing::TestWithParam<int64_t> {};

TEST_P(SelectiveScanStates, AnyCutIntoCallsGivesTheSameBits) {
  constexpr int32_t kRows = 61;
  const Problem before(200, GetParam(), kRows, 3, 21);  // more blocks and rows than a tile has
  const Runs all = {{0, kRows, 0, 1}};
  Problem whole = before;
  selective_scan(*make_stream(best_cpu_path()), whole.args(all));
  SplitMix64 rng(5);
  for (const CpuPath path : runnable_paths()) {
    for (int round = 0; round < 5; ++round) {
      Problem p = before;
      const auto stream = make_stream(path, 1 + round % 2);
      int32_t slot = 0;
      for (int32_t row = 0; row < kRows;) {
        const auto rows = std::min(kRows - row, static_cast<int32_t>(1 + rng.below(round == 0 ? 1 : 17)));
        const int32_t next = row + rows == kRows ? 1 : static_cast<int32_t>(1 + rng.below(2));
        const Runs run = {{row, rows, slot, next}};
        selective_scan(*stream, p.args(run));
        slot = next;
        row += rows;
      }
      EXPECT_EQ(different_bits(whole.out, p.out), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(whole.slot(1), p.slot(1)), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(before.slot(0), p.slot(0)), 0) << "the input slot is only read";
    }
  }
}

TEST_P(SelectiveScanStates, ARowDoesNotSeeItsNeighbours) {
  const Problem before(40, GetParam(), 30, 8, 31);
  const Runs alone = {{11, 6, 2, 2}};
  const Runs crowd = {{0, 5, -1, 0}, {5, 6, 1, 1}, {11, 6, 2, 2}, {17, 1, 3, 4}, {18, 12, 5, 6}};
  for (const CpuPath path : runnable_paths()) {
    Problem a = before, b = before;
    selective_scan(*make_stream(path), a.args(alone));
    selective_scan(*make_stream(path, 4), b.args(crowd));
    const auto rows_of = [&](const Problem& p) {
      return std::span(p.out).subspan(static_cast<size_t>(11 * p.stride), static_cast<size_t>(6 * p.stride));
    };
    EXPECT_EQ(different_bits(rows_of(a), rows_of(b)), 0) << cpu_path_name(path);
    EXPECT_EQ(different_bits(a.slot(2), b.slot(2)), 0) << cpu_path_name(path);
  }
}

TEST_P(SelectiveScanStates, TapsHoldTheStateAfterTheirRowAndNothingElseIsWritten) {
  const Problem before(24, GetParam(), 44, 6, 41);
  const Runs runs = {{0, 4, 5, -1}, {4, 40, 0, -1}};
  const std::vector<Tap> taps = {{29, 2}, {29, 4}, {43, 3}};
  const Runs to_middle = {{4, 26, 0, 1}}, to_end = {{4, 40, 0, 1}};
  for (const CpuPath path : runnable_paths()) {
    Problem p = before, middle = before, end = before;
    selective_scan(*make_stream(path, 2), p.args(runs, taps));
    selective_scan(*make_stream(path), middle.args(to_middle));
    selective_scan(*make_stream(path), end.args(to_end));
    Problem expected = before;
    const auto copy = [&](std::span<const float> from, int32_t slot) {
      std::copy(from.begin(), from.end(), expected.state.begin() + slot * expected.slot_stride);
    };
    copy(middle.slot(1), 2);
    copy(middle.slot(1), 4);
    copy(end.slot(1), 3);
    EXPECT_EQ(different_bits(expected.state, p.state), 0) << cpu_path_name(path);

    Problem reference = before;
    selective_scan_reference(reference.args(runs, taps));
    for (size_t i = 0; i < p.state.size(); ++i)
      ASSERT_NEAR(reference.state[i], p.state[i], 2e-5f);
  }
}

TEST_P(SelectiveScanStates, InPlaceOverAnyInput) {
  const Problem before(20, GetParam(), 8, 1, 51);
  const Runs runs = {{0, 8, 0, 0}};
  for (const CpuPath path : runnable_paths()) {
    Problem expected = before;
    selective_scan(*make_stream(path), expected.args(runs));
    for (const auto input : {&Problem::x, &Problem::z, &Problem::dt_raw}) {
      Problem p = before;
      SelectiveScanArgs args = p.args(runs);
      args.out = (p.*input).data();
      selective_scan(*make_stream(path), args);
      for (int64_t row = 0; row < 8; ++row) {
        const auto of = [&](const std::vector<float>& v) {
          return std::span(v).subspan(static_cast<size_t>(row * p.stride), static_cast<size_t>(p.padded));
        };
        EXPECT_EQ(different_bits(of(expected.out), of(p.*input)), 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(StateSizes, SelectiveScanStates, testing::Values(1, 16, 20, 200));

TEST(SelectiveScan, StepSizesBeyondTheThresholdOfSoftplus) {
  Problem before(16, 16, 4, 1, 61);
  before.dt_raw[0] = 19.9f;
  before.dt_raw[1] = 25.0f;
  before.dt_raw[2] = -60.0f;
  before.dt_raw[3] = 80.0f;
  const Runs runs = {{0, 4, 0, 0}};
  Problem p = before;
  selective_scan(*make_stream(best_cpu_path()), p.args(runs));
  EXPECT_LT(worst_error(before, p, runs), 1e-5);
}

TEST(SelectiveScan, StepsThatForgetTheStateAmongThoseThatDoNot) {
  // Some tiles have products dt * a far below the least exponent, or just at it, or infinite ones, the next has none.
  constexpr int32_t kRows = 64;
  Problem before(48, 16, kRows, 1, 62);
  const auto raw = [&](int64_t row, int64_t channel) -> float& {
    return before.dt_raw[static_cast<size_t>(row * before.stride + channel)];
  };
  raw(3, 0) = 60.0f;
  raw(20, 17) = 1e30f;
  raw(21, 5) = std::numeric_limits<float>::infinity();
  before.dt_bias[40] = 0.0f;
  for (int64_t n = 0; n < 16; ++n)
    before.a[static_cast<size_t>((2 * 16 + n) * 16 + 8)] = -1.0f;  // of channel 40
  for (int64_t row = 32; row < 48; ++row)
    raw(row, 40) = 125.0f + 0.125f * static_cast<float>(row - 32);
  const Runs runs = {{0, kRows, 0, 0}};
  Problem first = before;
  for (const CpuPath path : runnable_paths()) {
    Problem p = before;
    selective_scan(*make_stream(path), p.args(runs));
    if (path == CpuPath::kPortable) first = p;
    EXPECT_EQ(different_bits(first.out, p.out), 0) << cpu_path_name(path);
    EXPECT_EQ(different_bits(first.state, p.state), 0) << cpu_path_name(path);
  }
  before.dt_raw[static_cast<size_t>(50 * before.stride + 2)] = std::numeric_limits<float>::quiet_NaN();
  Problem p = before;
  selective_scan(*make_stream(best_cpu_path()), p.args(runs));
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::isnan(p.out[static_cast<size_t>(row * p.stride + 2)]), row >= 50) << row;
    EXPECT_EQ(p.out[static_cast<size_t>(row * p.stride + 3)], first.out[static_cast<size_t>(row * p.stride + 3)]);
  }
}

TEST(BlockedLayout, ThereAndBack) {
  SplitMix64 rng(3);
  const std::vector<float> plain = random_floats(rng, 21 * 5, -1, 1);
  std::vector<float> blocked(32 * 5, 9.0f), back(21 * 5);
  to_blocked(plain.data(), 21, 5, blocked.data());
  EXPECT_EQ(blocked[(1 * 5 + 3) * 16 + 4], plain[20 * 5 + 3]);
  EXPECT_EQ(blocked[(1 * 5 + 3) * 16 + 5], 0.0f);
  from_blocked(blocked.data(), 21, 5, back.data());
  EXPECT_EQ(plain, back);
}

}  // namespace
}  // namespace krait::kernels
