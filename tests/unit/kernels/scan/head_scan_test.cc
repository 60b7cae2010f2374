#include "kernels/scan/head_scan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/scan/selective_scan.h"
#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

using Runs = std::vector<Run>;

/// Inputs of `rows` tokens and `slots` states; heads of `head_dim` channels, the last one perhaps cut short.
struct Problem final {
  Problem(int64_t channels_in, int64_t head_dim, int64_t state_size_in, int64_t rows_in, int64_t slots, uint64_t seed)
      : channels(channels_in), state_size(state_size_in), rows(rows_in), heads((channels + head_dim - 1) / head_dim) {
    SplitMix64 rng(seed);
    padded = padded_channels(channels);
    stride = padded + 16;
    slot_stride = padded * state_size + 32;
    x = random_floats(rng, rows * stride, -2, 2);
    z = random_floats(rng, rows * stride, -4, 4);
    clear_padding(x, channels, stride);
    dt = random_floats(rng, rows * heads, -5, 2);
    decay.resize(dt.size());
    dt_bias = random_floats(rng, heads, -3, 1);
    a = random_floats(rng, heads, -12, 0);
    b = random_floats(rng, rows * (state_size + 3), -1, 1);
    c = random_floats(rng, rows * (state_size + 3), -1, 1);
    d = random_floats(rng, padded, -1, 1);
    clear_padding(d, channels, padded);
    for (int64_t i = 0; i < padded; ++i)
      head_of.push_back(static_cast<int32_t>(std::min(i / head_dim, heads - 1)));
    state.assign(static_cast<size_t>(slots * slot_stride), 77.0f);
    for (int64_t slot = 0; slot < slots; ++slot) {
      const std::vector<float> plain = random_floats(rng, channels * state_size, -1, 1);
      to_blocked(plain.data(), channels, state_size, state.data() + slot * slot_stride);
    }
    out.assign(static_cast<size_t>(rows * stride), 0.0f);
  }

  HeadStepsArgs steps(float low = 0, float high = std::numeric_limits<float>::infinity()) {
    return {.rows = rows,
            .heads = heads,
            .dt = dt.data(),
            .dt_stride = heads,
            .decay = decay.data(),
            .decay_stride = heads,
            .dt_bias = dt_bias.data(),
            .a = a.data(),
            .dt_min = low,
            .dt_max = high};
  }
  HeadScanArgs args(std::span<const Run> runs, std::span<const Tap> taps = {}) {
    return {.channels = padded,
            .state_size = state_size,
            .x = x.data(),
            .x_stride = stride,
            .z = z.data(),
            .z_stride = stride,
            .dt = dt.data(),
            .decay = decay.data(),
            .step_stride = heads,
            .head_of = head_of.data(),
            .b = b.data(),
            .b_stride = state_size + 3,
            .c = c.data(),
            .c_stride = state_size + 3,
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

  int64_t channels, state_size, rows, heads, padded, stride, slot_stride;
  std::vector<float> x, z, dt, decay, dt_bias, a, b, c, d, state, out;
  std::vector<int32_t> head_of;
};

/// One channel of one run in double, from raw dt: outputs, then the final state.
std::vector<double> truth(const Problem& p, const Run& run, int64_t channel) {
  const auto head = static_cast<size_t>(p.head_of[static_cast<size_t>(channel)]);
  std::vector<double> h, result;
  for (int64_t n = 0; n < p.state_size; ++n) {
    const auto at = static_cast<size_t>((channel / 16 * p.state_size + n) * 16 + channel % 16);
    h.push_back(run.in_slot < 0 ? 0.0 : double{p.slot(run.in_slot)[at]});
  }
  for (int64_t t = run.row_begin; t < run.row_begin + run.rows; ++t) {
    const auto i = static_cast<size_t>(t * p.stride + channel);
    const auto k = static_cast<size_t>(t * (p.state_size + 3));
    const double raw = double{p.dt[static_cast<size_t>(t * p.heads) + head]} + double{p.dt_bias[head]};
    const double dt = std::log1p(std::exp(raw));
    double y = double{p.d[static_cast<size_t>(channel)]} * double{p.x[i]};
    for (size_t n = 0; n < h.size(); ++n) {
      h[n] = std::exp(dt * double{p.a[head]}) * h[n] + dt * double{p.x[i]} * double{p.b[k + n]};
      y += double{p.c[k + n]} * h[n];
    }
    result.push_back(y * double{p.z[i]} / (1 + std::exp(-double{p.z[i]})));
  }
  result.insert(result.end(), h.begin(), h.end());
  return result;
}

double worst_error(const Problem& before, const Problem& after, std::span<const Run> runs) {
  double worst = 0;
  const auto compare = [&worst](float value, double expected) {
    const double error = std::abs(double{value} - expected) / std::max(1.0, std::abs(expected));
    worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
  };
  for (const Run& run : runs) {
    for (int64_t c = 0; c < before.channels; ++c) {
      const std::vector<double> expected = truth(before, run, c);
      for (int64_t i = 0; i < run.rows; ++i)
        compare(after.out[static_cast<size_t>((run.row_begin + i) * after.stride + c)], expected[size_t(i)]);
      for (int64_t n = 0; n < before.state_size; ++n) {
        const auto at = static_cast<size_t>((c / 16 * before.state_size + n) * 16 + c % 16);
        compare(after.slot(run.out_slot)[at], expected[static_cast<size_t>(run.rows + n)]);
      }
    }
  }
  return worst;
}

class HeadScanShapes : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

TEST_P(HeadScanShapes, AllPathsWithinTheTruthAndAlike) {
  const auto [channels, head_dim, state_size] = GetParam();
  const Runs runs = {{0, 9, -1, 0}, {9, 1, 1, 1}, {10, 2, 2, 3}, {12, 7, 4, 4}};
  const Problem before(channels, head_dim, state_size, 20, 6, 11);
  const double tolerance = 2e-6 + 1.5e-7 * static_cast<double>(state_size);
  Problem reference = before;
  head_steps_reference(reference.steps());
  head_scan_reference(reference.args(runs));
  EXPECT_LT(worst_error(before, reference, runs), tolerance);
  Problem first = before;
  for (const CpuPath path : runnable_paths()) {
    for (const int threads : {1, 3}) {
      Problem p = before;
      head_steps(*make_stream(path, threads), p.steps());
      head_scan(*make_stream(path, threads), p.args(runs));
      if (path == CpuPath::kPortable && threads == 1) first = p;
      EXPECT_EQ(different_bits(first.decay, p.decay), 0) << cpu_path_name(path) << " " << threads;
      EXPECT_EQ(different_bits(first.out, p.out), 0) << cpu_path_name(path) << " " << threads;
      EXPECT_EQ(different_bits(first.state, p.state), 0) << cpu_path_name(path) << " " << threads;
    }
  }
  const double error = worst_error(before, first, runs);
  fmt::print("  error {:.2g} of {:.2g}\n", error, tolerance);
  EXPECT_LT(error, tolerance);
}

INSTANTIATE_TEST_SUITE_P(Shapes, HeadScanShapes,
                         testing::Combine(testing::Values(5, 43, 128, 512), testing::Values(5, 16, 64),
                                          testing::Values(1, 6, 16, 128, 256)),
                         [](const auto& info) {
                           return fmt::format("c{}_p{}_n{}", std::get<0>(info.param), std::get<1>(info.param),
                                              std::get<2>(info.param));
                         });

TEST(HeadScan, AnyCutIntoCallsGivesTheSameBits) {
  constexpr int32_t kRows = 61;
  Problem before(200, 24, 20, kRows, 3, 21);
  head_steps(*make_stream(best_cpu_path()), before.steps());
  const Runs all = {{0, kRows, 0, 1}};
  Problem whole = before;
  head_scan(*make_stream(best_cpu_path()), whole.args(all));
  SplitMix64 rng(5);
  for (const CpuPath path : runnable_paths()) {
    for (int round = 0; round < 5; ++round) {
      Problem p = before;
      int32_t slot = 0;
      for (int32_t row = 0; row < kRows;) {
        const auto rows = std::min(kRows - row, static_cast<int32_t>(1 + rng.below(round == 0 ? 1 : 17)));
        const int32_t next = row + rows == kRows ? 1 : static_cast<int32_t>(1 + rng.below(2));
        const Runs run = {{row, rows, slot, next}};
        head_scan(*make_stream(path, 1 + round % 2), p.args(run));
        slot = next;
        row += rows;
      }
      EXPECT_EQ(different_bits(whole.out, p.out), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(whole.slot(1), p.slot(1)), 0) << cpu_path_name(path);
      EXPECT_EQ(different_bits(before.slot(0), p.slot(0)), 0) << "the input slot is only read";
    }
  }
}

TEST(HeadScan, TapsHoldTheStateAfterTheirRow) {
  Problem before(24, 8, 9, 44, 6, 41);
  head_steps(*make_stream(best_cpu_path()), before.steps());
  const Runs runs = {{0, 4, 5, -1}, {4, 40, 0, -1}};
  const std::vector<Tap> taps = {{29, 2}, {29, 4}, {43, 3}};
  const Runs to_middle = {{4, 26, 0, 1}}, to_end = {{4, 40, 0, 1}};
  Problem p = before, middle = before, end = before;
  head_scan(*make_stream(best_cpu_path(), 2), p.args(runs, taps));
  head_scan(*make_stream(best_cpu_path()), middle.args(to_middle));
  head_scan(*make_stream(best_cpu_path()), end.args(to_end));
  EXPECT_EQ(different_bits(middle.slot(1), p.slot(2)), 0);
  EXPECT_EQ(different_bits(middle.slot(1), p.slot(4)), 0);
  EXPECT_EQ(different_bits(end.slot(1), p.slot(3)), 0);
  EXPECT_EQ(different_bits(before.slot(0), p.slot(0)), 0);
  EXPECT_EQ(different_bits(before.slot(1), p.slot(1)), 0);
}

TEST(HeadSteps, ANaNStaysOne) {
  for (const CpuPath path : runnable_paths()) {
    Problem p(40, 2, 1, 7, 1, 3);
    p.dt[5] = NAN;
    head_steps(*make_stream(path), p.steps(0.25f, 1.5f));
    for (size_t i = 0; i < p.dt.size(); ++i)
      EXPECT_EQ(std::isnan(p.dt[i]), i == 5) << cpu_path_name(path);
  }
}

TEST(HeadSteps, DtStaysWithinItsLimits) {
  for (const CpuPath path : runnable_paths()) {
    Problem p(40, 2, 1, 7, 1, 3);
    head_steps(*make_stream(path), p.steps(0.25f, 1.5f));
    Problem reference(40, 2, 1, 7, 1, 3);
    head_steps_reference(reference.steps(0.25f, 1.5f));
    int at_low = 0, at_high = 0;
    for (size_t i = 0; i < p.dt.size(); ++i) {
      at_low += p.dt[i] == 0.25f;
      at_high += p.dt[i] == 1.5f;
      EXPECT_NEAR(p.dt[i], reference.dt[i], 1e-6f);
      EXPECT_NEAR(p.decay[i], reference.decay[i], 2e-6f);
    }
    EXPECT_GT(at_low, 0);
    EXPECT_GT(at_high, 0);
  }
}

}  // namespace
}  // namespace krait::kernels
