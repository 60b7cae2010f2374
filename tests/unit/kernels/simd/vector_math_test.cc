#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/kernels/kernel_test_util.h"

#define KRAIT_SIMD_BODY "tests/unit/kernels/simd/math_functions.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {
namespace {

using Truth = double (*)(double);

double true_exp(double x) {
  return std::exp(x);
}
double true_exp2(double x) {
  return std::exp2(x);
}
double true_silu(double x) {
  return x / (1.0 + std::exp(-x));
}
double true_softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double true_log(double x) {
  return std::log(x);
}

/// Floats from low to high, evenly spaced, and as many whose size is spread over powers of two.
std::vector<float> grid(float low, float high) {
  constexpr int kCount = 1 << 19;
  std::vector<float> x;
  for (int i = 0; i < kCount; ++i)
    x.push_back(low + (high - low) * (static_cast<float>(i) / kCount));
  for (int i = 0; i < kCount; ++i) {
    const float size = std::exp2(-40.0f * static_cast<float>(i) / kCount);
    x.push_back(i % 2 == 0 || low >= 0 ? high * size : low * size);
  }
  return x;
}

/// The worst error relative to the truth over the grid, the same bits asked of every path.
template <class Apply>
double worst_error(const std::vector<float>& x, Truth truth, const Apply& apply) {
  std::vector<float> first;
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> out(x.size());
    apply(path, x.data(), static_cast<int64_t>(x.size()), out.data());
    if (first.empty()) first = out;
    EXPECT_EQ(different_bits(first, out), 0) << cpu_path_name(path);
  }
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = truth(static_cast<double>(x[i]));
    const double error = std::abs(static_cast<double>(first[i]) - expected);
    if (expected != 0) worst = std::max(worst, error / std::abs(expected));
    if (expected == 0) {
      EXPECT_EQ(first[i], 0.0f) << x[i];
    }
  }
  fmt::print("  worst relative error {:.3g}\n", worst);
  return worst;
}

void run_exp(CpuPath path, const float* x, int64_t n, float* out) {
  KRAIT_SIMD_CALL(path, apply_exp, x, n, out);
}
void run_exp2(CpuPath path, const float* x, int64_t n, float* out) {
  KRAIT_SIMD_CALL(path, apply_exp2, x, n, out);
}
void run_silu(CpuPath path, const float* x, int64_t n, float* out) {
  KRAIT_SIMD_CALL(path, apply_silu, x, n, out);
}
void run_softplus(CpuPath path, const float* x, int64_t n, float* out) {
  KRAIT_SIMD_CALL(path, apply_softplus, x, n, out);
}
void run_log(CpuPath path, const float* x, int64_t n, float* out) {
  KRAIT_SIMD_CALL(path, apply_log, x, n, out);
}

TEST(VectorMath, ExpWithinOneTenMillionth) {
  EXPECT_LT(worst_error(grid(-87.3f, 88.3f), true_exp, run_exp), 1e-7);
}

TEST(VectorMath, ExpOutsideItsRange) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {-87.7f, -100.0f, -1e30f, -inf,   88.3f, 100.0f, 1e30f, inf,
                                nan,    0.0f,    -0.0f,  -87.5f, 0,     0,      0,     0};
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> out(16);
    run_exp(path, x.data(), 16, out.data());
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(std::bit_cast<uint32_t>(out[static_cast<size_t>(i)]), 0u) << i;
    for (size_t i = 5; i < 8; ++i)
      EXPECT_EQ(out[i], out[4]) << i;
    EXPECT_TRUE(std::isfinite(out[4]));
    EXPECT_TRUE(std::isnan(out[8]));
    EXPECT_EQ(out[9], 1.0f);
    EXPECT_EQ(out[10], 1.0f);
    EXPECT_NEAR(out[11] / std::exp(-87.5f), 1.0f, 1e-6f);
  }
}

TEST(VectorMath, Exp2) {
  EXPECT_LT(worst_error(grid(-126.0f, 127.0f), true_exp2, run_exp2), 1.7e-7);
}

TEST(VectorMath, Exp2OutsideItsRange) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {-126.1f, -1e4f, -1e30f, -inf, nan, 0.0f, -0.0f, -1.0f, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> out(16);
    run_exp2(path, x.data(), 16, out.data());
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(out[i], 0x1p-126f) << i;
    EXPECT_TRUE(std::isnan(out[4]));
    EXPECT_EQ(out[5], 1.0f);
    EXPECT_EQ(out[6], 1.0f);
    EXPECT_EQ(out[7], 0.5f);
  }
}

TEST(VectorMath, Silu) {
  EXPECT_LT(worst_error(grid(-87.0f, 87.0f), true_silu, run_silu), 3e-7);
}

TEST(VectorMath, SoftplusSmallAndLarge) {
  EXPECT_LT(worst_error(grid(-87.0f, 100.0f), true_softplus, run_softplus), 3e-7);
}

TEST(VectorMath, LogRelativeAwayFromOne) {
  EXPECT_LT(worst_error(grid(1e-9f, 0.5f), true_log, run_log), 1.5e-7);
  EXPECT_LT(worst_error(grid(2.0f, 30.0f), true_log, run_log), 1.5e-7);
}

/// Random bits at both ends and between.
std::vector<int32_t> random_bits() {
  std::vector<int32_t> r;
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    r.push_back(static_cast<int32_t>(i));
    r.push_back(static_cast<int32_t>(~i));
    r.push_back(static_cast<int32_t>(i * 65537u));
    r.push_back(static_cast<int32_t>(1u << (i % 32)));
  }
  return r;
}

TEST(VectorMath, GumbelNoiseIsBelowItsBound) {
  const std::vector<int32_t> r = random_bits();
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> room(r.size()), noise(r.size());
    KRAIT_SIMD_CALL(path, apply_gumbel_room, r.data(), static_cast<int64_t>(r.size()), room.data());
    EXPECT_GT(*std::min_element(room.begin(), room.end()), 0.0f) << cpu_path_name(path);
    KRAIT_SIMD_CALL(path, apply_gumbel, r.data(), static_cast<int64_t>(r.size()), noise.data());
    EXPECT_LT(*std::max_element(noise.begin(), noise.end()), portable::kMostGumbel);
  }
}

TEST(VectorMath, GumbelNoiseAtBothEndsAndBetween) {
  const std::vector<int32_t> r = random_bits();
  std::vector<float> first;
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> out(r.size());
    KRAIT_SIMD_CALL(path, apply_gumbel, r.data(), static_cast<int64_t>(r.size()), out.data());
    if (first.empty()) first = out;
    EXPECT_EQ(different_bits(first, out), 0) << cpu_path_name(path);
  }
  double worst = 0;
  for (size_t i = 0; i < r.size(); ++i) {
    const double v = (static_cast<double>(static_cast<uint32_t>(r[i])) + 0.5) * 0x1.0p-32;
    const double expected = -std::log(-std::log1p(-v));
    worst = std::max(worst, std::abs(static_cast<double>(first[i]) - expected));
  }
  fmt::print("  worst absolute error {:.3g}\n", worst);
  EXPECT_LT(worst, 2e-6);  // of numbers up to 23
}

TEST(VectorMath, PhiloxEqualsTheScalarOne) {
  std::vector<int32_t> id;
  for (int32_t i = 0; i < 4096; ++i)
    id.push_back(i * 7919 - 1'000'000);
  for (const CpuPath path : runnable_paths()) {
    std::vector<int32_t> out(id.size());
    KRAIT_SIMD_CALL(path, apply_philox, id.data(), 4096, 0xdeadbeefu, 0xffffffffu, out.data());
    for (size_t i = 0; i < id.size(); ++i) {
      const auto c0 = static_cast<uint32_t>(id[i]);
      const uint32_t expected = philox4x32({0xdeadbeefu, 0xffffffffu}, {c0, 7, 0xfedcba98u, 3})[0];
      ASSERT_EQ(static_cast<uint32_t>(out[i]), expected) << cpu_path_name(path) << " " << i;
    }
  }
}

TEST(VectorMath, PartialLoadsAndStoresTouchOnlyTheirLanes) {
  for (const CpuPath path : runnable_paths()) {
    for (int count = 0; count <= 16; ++count) {
      const std::vector<float> x(static_cast<size_t>(count), 3.0f);  // the sanitizer sees a read beyond it
      std::vector<float> loaded(16), stored(16, 8.0f);
      KRAIT_SIMD_CALL(path, apply_partial, x.data(), count, loaded.data(), stored.data());
      for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(loaded[static_cast<size_t>(i)], i < count ? 3.0f : -5.0f);
        EXPECT_EQ(stored[static_cast<size_t>(i)], i < count ? 3.0f : 8.0f);
      }
    }
  }
}

TEST(VectorMath, SumOfLanesIsOneTree) {
  SplitMix64 rng(1);
  const std::vector<float> x = random_floats(rng, 16, -1, 1);
  const float first = portable::apply_sum(x.data());
  for (const CpuPath path : runnable_paths())
    EXPECT_EQ(KRAIT_SIMD_CALL(path, apply_sum, x.data()), first);
  double truth = 0;
  for (const float value : x)
    truth += static_cast<double>(value);
  EXPECT_NEAR(static_cast<double>(first), truth, 1e-6);
}

TEST(Lanes, ExchangesTakeTheLaneThatFarAway) {
  std::vector<float> x;
  for (int i = 0; i < 16; ++i)
    x.push_back(static_cast<float>(i));
  for (const CpuPath path : runnable_paths()) {
    std::vector<float> out(64);
    KRAIT_SIMD_CALL(path, apply_exchanges, x.data(), out.data());
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(out[static_cast<size_t>(i)], static_cast<float>((i % 16) ^ (1 << (i / 16)))) << cpu_path_name(path);
  }
}

TEST(Lanes, NarrowStoresKeepTheLowBitsAndNarrowLoadsWidenThem) {
  std::vector<int32_t> x;
  for (uint32_t i = 0; i < 16; ++i)
    x.push_back(static_cast<int32_t>(i * 0x9E3779B9u + 0x7f80));
  for (const CpuPath path : runnable_paths()) {
    std::vector<std::byte> bytes(17), halves(33);
    std::vector<int32_t> from_bytes(16), from_halves(16);
    KRAIT_SIMD_CALL(path, apply_narrowing, x.data(), bytes.data() + 1, halves.data() + 1, from_bytes.data(),
                    from_halves.data());
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(static_cast<int8_t>(bytes[i + 1]), static_cast<int8_t>(x[i])) << cpu_path_name(path) << " " << i;
      EXPECT_EQ(from_bytes[i], static_cast<int8_t>(x[i])) << cpu_path_name(path) << " " << i;
      uint16_t half;
      std::memcpy(&half, halves.data() + 1 + 2 * i, 2);
      EXPECT_EQ(half, static_cast<uint16_t>(x[i])) << cpu_path_name(path) << " " << i;
      EXPECT_EQ(from_halves[i], static_cast<uint16_t>(x[i])) << cpu_path_name(path) << " " << i;
    }
  }
}

}  // namespace
}  // namespace krait::kernels
