// The row codec against its plain reference on every path, byte for byte, and its errors against double arithmetic.
#include "kernels/quant/row_codec.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

constexpr RowFormat kFormats[] = {RowFormat::kBf16, RowFormat::kInt8, RowFormat::kInt4};
constexpr int64_t kCounts[] = {0, 1, 7, 15, 16, 17, 31, 32, 33, 48, 100, 127, 128, 129, 160, 255, 256, 1000, 4099};

std::vector<float> gaussian(uint64_t seed, int64_t count) {
  SplitMix64 rng(seed);
  std::vector<float> x;
  while (std::ssize(x) < count) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
    x.push_back(static_cast<float>(radius * std::cos(2 * std::numbers::pi * rng.uniform())));
  }
  return x;
}

std::vector<std::byte> encoded(CpuPath path, RowFormat format, const std::vector<float>& x) {
  const auto count = std::ssize(x);
  std::vector<std::byte> out(static_cast<size_t>(encoded_bytes(format, count)) + 1, std::byte{0xA5});
  encode_row(path, format, x.data(), count, out.data());
  EXPECT_EQ(out.back(), std::byte{0xA5}) << "written past the end";
  out.pop_back();
  return out;
}

std::vector<float> round_trip(CpuPath path, RowFormat format, const std::vector<float>& x) {
  std::vector<float> out(x.size());
  decode_row(path, format, encoded(path, format, x).data(), std::ssize(x), out.data());
  return out;
}

/// Root of the mean square of (a - b), against that of b.
double rms_error(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / size);
}

TEST(RowCodec, EveryPathGivesTheReferencesBytes) {
  SplitMix64 rng(1);
  for (const int64_t count : kCounts) {
    for (const double size : {1.0, 1e-37, 1e-42, 3e38, 1e-3}) {
      std::vector<float> x = random_floats(rng, count, -size, size);
      if (count > 2) x[1] = 0.0f, x[2] = -0.0f;
      for (const RowFormat format : kFormats) {
        std::vector<std::byte> bytes(static_cast<size_t>(encoded_bytes(format, count)));
        encode_row_reference(format, x.data(), count, bytes.data());
        std::vector<float> values(x.size());
        decode_row_reference(format, bytes.data(), count, values.data());
        for (const CpuPath path : runnable_paths()) {
          EXPECT_EQ(encoded(path, format, x), bytes) << cpu_path_name(path) << " " << count << " " << size;
          EXPECT_EQ(different_bits(round_trip(path, format, x), values), 0) << cpu_path_name(path) << " " << count;
        }
      }
    }
  }
}

TEST(RowCodec, TiesGoToTheEvenNumber) {
  std::vector<float> x(32, 0.0f);
  x[0] = 7.0f;  // the scale is 1
  const std::vector<float> halves = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -6.5f};
  const std::vector<float> whole = {0, 2, 2, 0, -2, -6};
  std::copy(halves.begin(), halves.end(), x.begin() + 14);  // over both halves of the group
  for (const CpuPath path : runnable_paths()) {
    const auto back = round_trip(path, RowFormat::kInt4, x);
    EXPECT_EQ(back[0], 7.0f);
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(back[14 + i], whole[i]) << i;
  }
}

TEST(RowCodec, ErrorsOfGaussianRows) {
  const std::vector<float> x = gaussian(3, 1 << 18);
  const std::vector<std::pair<RowFormat, double>> bounds = {
      {RowFormat::kBf16, 0.0018}, {RowFormat::kInt8, 0.0066}, {RowFormat::kInt4, 0.098}};
  for (const auto& [format, bound] : bounds) {
    const double error = rms_error(round_trip(best_cpu_path(), format, x), x);
    fmt::print("  format {}: relative error {:.5f} of {:.5f}\n", static_cast<int>(format), error, bound);
    EXPECT_LT(error, bound);
    EXPECT_GT(error, bound / 2) << "too good to be true";
  }
}

TEST(RowCodec, NoElementIsOffByMoreThanHalfAStep) {
  SplitMix64 rng(5);
  for (const auto& [format, group, limit] :
       {std::tuple{RowFormat::kInt8, 128, 127.0}, std::tuple{RowFormat::kInt4, 32, 7.0}}) {
    const std::vector<float> x = gaussian(rng.next(), 10'000);
    const auto back = round_trip(best_cpu_path(), format, x);
    for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(group)) {
      const size_t end = std::min(x.size(), begin + static_cast<size_t>(group));
      double largest = 0;
      for (size_t i = begin; i < end; ++i)
        largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      const double step = largest / limit * (1 + 1.0 / 128);  // the scale is a bf16, rounded up
      for (size_t i = begin; i < end; ++i)
        ASSERT_LE(std::abs(static_cast<double>(back[i]) - static_cast<double>(x[i])), step * 0.50001) << i;
    }
  }
}

TEST(RowCodec, WhatIsNotFiniteIsNeverANumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const CpuPath path : runnable_paths()) {
    for (const RowFormat format : kFormats) {
      for (const int64_t count : {int64_t{1}, int64_t{20}, int64_t{128}, int64_t{300}}) {
        for (const float bad : {infinity, -infinity, nan, std::bit_cast<float>(0xffffffffu)}) {
          for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
            std::vector<float> x = gaussian(7, count);
            x[static_cast<size_t>(at)] = bad;
            if (at > 0) x[0] = -bad;  // two infinities that would cancel
            const auto back = round_trip(path, format, x);
            EXPECT_FALSE(std::isfinite(back[static_cast<size_t>(at)])) << cpu_path_name(path) << " " << count;
            if (std::isnan(bad) || format != RowFormat::kBf16) {
              EXPECT_TRUE(std::isnan(back[static_cast<size_t>(at)]));
            }
          }
        }
      }
    }
  }
}

TEST(RowCodec, BlocksOfARowMayBeEncodedApart) {
  const std::vector<float> x = gaussian(11, 1000);
  for (const RowFormat format : kFormats) {
    const auto whole = encoded(best_cpu_path(), format, x);
    std::vector<std::byte> pieces;
    for (size_t begin = 0; begin < x.size(); begin += 384) {
      const auto piece = encoded(best_cpu_path(), format,
                                 {x.begin() + static_cast<std::ptrdiff_t>(begin),
                                  x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), begin + 384))});
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(whole, pieces);
  }
}

TEST(Rotation, EveryPathGivesTheReferencesBits) {
  for (const int64_t count : kCounts) {
    const std::vector<float> x = gaussian(static_cast<uint64_t>(count) + 20, count);
    std::vector<float> there = x;
    rotate_row_reference(there.data(), count);
    std::vector<float> back = there;
    rotate_row_back_reference(back.data(), count);
    for (const CpuPath path : runnable_paths()) {
      std::vector<float> mine = x;
      rotate_row(path, mine.data(), count);
      EXPECT_EQ(different_bits(mine, there), 0) << cpu_path_name(path) << " " << count;
      rotate_row_back(path, mine.data(), count);
      EXPECT_EQ(different_bits(mine, back), 0) << cpu_path_name(path) << " " << count;
    }
  }
}

// H[i][j] = (-1)^(bits that i and j share): the definition, in double.
TEST(Rotation, IsTheHadamardMatrixAndUndoesItself) {
  for (const int64_t size : {int64_t{16}, int64_t{32}, int64_t{64}, int64_t{128}}) {
    const std::vector<float> x = gaussian(31, size);
    std::vector<float> y = x;
    rotate_row(best_cpu_path(), y.data(), size);
    const double factor = std::ldexp(1.0, -static_cast<int>(std::bit_width(static_cast<uint64_t>(size))) / 2);
    for (int64_t i = 0; i < size; ++i) {
      double expected = 0;
      for (int64_t j = 0; j < size; ++j) {
        const bool minus = std::popcount(static_cast<uint64_t>(i & j)) % 2 != 0;
        expected += (minus ? -1 : 1) * static_cast<double>(x[static_cast<size_t>(j)]);
      }
      EXPECT_NEAR(y[static_cast<size_t>(i)], expected * factor, 1e-5) << size << " " << i;
    }
    rotate_row_back(best_cpu_path(), y.data(), size);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], y[i], 2e-6) << i;
  }
}

// A few channels a hundred times as large as the rest: what the rotation is for.
TEST(Rotation, KeepsOtherChannelsFromPayingForOutliers) {
  std::vector<float> x = gaussian(41, 1 << 16);
  std::vector<bool> is_outlier(x.size());
  for (size_t i = 37; i < x.size(); i += 512)
    x[i] *= 100.0f, is_outlier[i] = true;
  const auto error_of_others = [&](const std::vector<float>& back) {
    std::vector<float> a, b;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!is_outlier[i]) a.push_back(back[i]), b.push_back(x[i]);
    }
    return rms_error(a, b);
  };
  const CpuPath path = best_cpu_path();
  const double plain = error_of_others(round_trip(path, RowFormat::kInt8, x));
  std::vector<float> rotated = x;
  rotate_row(path, rotated.data(), std::ssize(x));
  rotated = round_trip(path, RowFormat::kInt8, rotated);
  rotate_row_back(path, rotated.data(), std::ssize(x));
  const double spread = error_of_others(rotated);
  fmt::print("  the others' error: {:.4f}, rotated {:.4f}\n", plain, spread);
  EXPECT_LT(spread, plain / 2);
}

}  // namespace
}  // namespace krait::kernels
