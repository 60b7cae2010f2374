#include "kernels/sampling/sampling.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Logits like a model's, with ties: quantized to eighths.
std::vector<float> tied_logits(SplitMix64& rng, int64_t n) {
  std::vector<float> logits = random_floats(rng, n, -8, 8);
  for (float& value : logits)
    value = std::round(value * 8) / 8;
  return logits;
}

bool same(const Candidate& a, const Candidate& b) {
  return a.id == b.id && std::bit_cast<uint32_t>(a.value) == std::bit_cast<uint32_t>(b.value);
}

TEST(Argmax, TiesGoToTheLowerIdAndRangesMerge) {
  SplitMix64 rng(1);
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 1000, 50'280}) {
    const std::vector<float> logits = tied_logits(rng, n);
    const auto expected = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    for (const CpuPath path : runnable_paths()) {
      const Candidate found = argmax_row(path, logits.data(), n, 100);
      EXPECT_EQ(found.id, expected + 100);
      EXPECT_EQ(found.value, logits[static_cast<size_t>(expected)]);
      const int64_t cut = static_cast<int64_t>(rng.below(static_cast<uint64_t>(n)));
      if (cut == 0) continue;
      const Candidate a = argmax_row(path, logits.data(), cut, 0);
      const Candidate b = argmax_row(path, logits.data() + cut, n - cut, static_cast<int32_t>(cut));
      EXPECT_EQ((comes_before(a, b) ? a : b).id, expected);
    }
  }
}

TEST(Argmax, NansInfinitiesAndSignedZeros) {
  for (const CpuPath path : runnable_paths()) {
    const auto best = [path](const std::vector<float>& v) {
      return argmax_row(path, v.data(), static_cast<int64_t>(v.size()), 0).id;
    };
    EXPECT_EQ(best({kNan, 1, kNan, 2, 2}), 3);
    EXPECT_EQ(best({kNan, kNan}), 0);
    EXPECT_EQ(best({kNan, -kInf, -kInf}), 1);
    EXPECT_EQ(best({-kInf, -kInf}), 0);
    EXPECT_EQ(best({1, kInf, kInf}), 1);
    EXPECT_EQ(best({-0.0f, 0.0f}), 0);
    EXPECT_EQ(best({0.0f, -0.0f}), 0);
    EXPECT_EQ(best({-1e38f, kNan}), 0);
  }
}

TEST(TopN, EqualsASortedRow) {
  SplitMix64 rng(2);
  for (const int64_t n : {1, 5, 20, 1000}) {
    std::vector<float> logits = tied_logits(rng, n);
    if (n > 5) logits[3] = kNan;
    std::vector<Candidate> all;
    for (int64_t i = 0; i < n; ++i)
      all.push_back({logits[static_cast<size_t>(i)], static_cast<int32_t>(i)});
    std::stable_sort(all.begin(), all.end(), comes_before);
    for (const size_t count : {0u, 1u, 5u, 20u}) {
      std::vector<Candidate> out(count);
      const int64_t written = top_n(logits.data(), n, out);
      ASSERT_EQ(written, std::min(n, static_cast<int64_t>(count)));
      for (size_t i = 0; i < static_cast<size_t>(written); ++i)
        EXPECT_TRUE(same(out[i], all[i])) << i;
    }
  }
}

TEST(LogSumExp, WithinAMillionthAndAlikeOnAllPaths) {
  SplitMix64 rng(3);
  for (const int64_t n : {1, 16, 17, 512, 513, 50'280}) {
    for (const double spread : {0.0, 1.0, 10.0, 60.0}) {
      std::vector<float> logits = random_floats(rng, n, -spread, spread);
      const double expected = log_sum_exp_reference(logits.data(), n);
      const double first = log_sum_exp(CpuPath::kPortable, logits.data(), n);
      EXPECT_NEAR(first, expected, 1e-6) << n << " " << spread;
      for (const CpuPath path : runnable_paths())
        EXPECT_EQ(log_sum_exp(path, logits.data(), n), first);
    }
  }
  const std::vector<float> odd = {-kInf, 2.0f, kNan, 2.0f}, none = {-kInf, kNan}, over = {1.0f, kInf};
  for (const CpuPath path : runnable_paths()) {
    EXPECT_NEAR(log_sum_exp(path, odd.data(), 4), 2.0 + std::log(2.0), 1e-7);
    EXPECT_EQ(log_sum_exp(path, none.data(), 2), -HUGE_VAL);
    EXPECT_EQ(log_sum_exp(path, over.data(), 2), HUGE_VAL);
  }
}

TEST(GumbelArgmax, IsTheNoiseOfItsContractWhateverTheCut) {
  SplitMix64 rng(4);
  for (const int64_t n : {1, 7, 16, 100, 5000}) {
    for (int round = 0; round < 10; ++round) {
      const NoiseKey key = {rng.next(), static_cast<uint32_t>(rng.next()), rng.next()};
      const std::vector<float> logits = tied_logits(rng, n);
      const float factor = inverse_temperature(0.7f);
      Candidate expected{-kInf, -1};
      for (int64_t i = 0; i < n; ++i) {
        const auto id = static_cast<int32_t>(i);
        const Candidate c{logits[static_cast<size_t>(i)] * factor + gumbel_noise_reference(id, key), id};
        if (expected.id < 0 || comes_before(c, expected)) expected = c;
      }
      const Candidate first = gumbel_argmax_row(CpuPath::kPortable, logits.data(), n, 0, factor, key);
      EXPECT_EQ(first.id, expected.id);
      EXPECT_NEAR(first.value, expected.value, 4e-6f);
      for (const CpuPath path : runnable_paths()) {
        EXPECT_TRUE(same(first, gumbel_argmax_row(path, logits.data(), n, 0, factor, key)));
        Candidate merged{-kInf, -1};
        for (int64_t begin = 0; begin < n;) {
          const int64_t end = begin + 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(n - begin)));
          const Candidate part =
              gumbel_argmax_row(path, logits.data() + begin, end - begin, static_cast<int32_t>(begin), factor, key);
          if (merged.id < 0 || comes_before(part, merged)) merged = part;
          begin = end;
        }
        EXPECT_TRUE(same(first, merged)) << "cut into ranges";
      }
    }
  }
}

TEST(GumbelArgmax, ANanHidesNoNeighbour) {
  SplitMix64 rng(14);
  for (int round = 0; round < 200; ++round) {
    const NoiseKey key = {rng.next(), 0, rng.next()};
    std::vector<float> clean = tied_logits(rng, 150);
    std::vector<float> row = clean;
    for (size_t i = 0; i < row.size(); ++i) {
      if (rng.below(2) == 0) continue;
      clean[i] = -kInf;
      row[i] = std::numeric_limits<float>::quiet_NaN();
    }
    for (const CpuPath path : runnable_paths()) {
      const auto of = [&](const std::vector<float>& logits) {
        return gumbel_argmax_row(path, logits.data(), std::ssize(logits), 0, 1.0f, key);
      };
      EXPECT_TRUE(same(of(row), of(clean)));
    }
  }
}

TEST(GumbelArgmax, ListEqualsRow) {
  SplitMix64 rng(5);
  std::vector<float> row = random_floats(rng, 300, -4, 4), values;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 300; ++i) {
    if (rng.below(3) != 0) {
      ids.push_back(i);
      values.push_back(row[static_cast<size_t>(i)]);
    } else {
      row[static_cast<size_t>(i)] = -kInf;
    }
  }
  for (const CpuPath path : runnable_paths()) {
    for (uint64_t position = 0; position < 50; ++position) {
      const NoiseKey key = {9, 1, position};
      EXPECT_TRUE(same(gumbel_argmax_row(path, row.data(), 300, 0, 1.0f, key),
                       gumbel_argmax_list(path, values.data(), ids.data(), static_cast<int64_t>(ids.size()), key)));
    }
    const std::vector<float> nothing = {-kInf, -kInf};
    EXPECT_EQ(gumbel_argmax_row(path, nothing.data(), 2, 5, 1.0f, {}).id, 5);
    const std::vector<float> odd = {kNan, -3.0f, -kInf};
    EXPECT_EQ(gumbel_argmax_row(path, odd.data(), 3, 0, 1.0f, {}).id, 1);
  }
}

TEST(GumbelArgmax, EveryPartOfTheKeyMatters) {
  const std::vector<float> flat(5000, 0.0f);
  const auto draw = [&](const NoiseKey& key) {
    return gumbel_argmax_row(best_cpu_path(), flat.data(), 5000, 0, 1.0f, key).id;
  };
  const uint64_t high = uint64_t{1} << 32;
  const std::vector<NoiseKey> keys = {{0, 0, 0}, {1, 0, 0},    {high, 0, 0}, {0, 1, 0},
                                      {0, 0, 1}, {0, 0, high}, {1, 1, 1}};
  std::vector<int32_t> draws;
  for (const NoiseKey& key : keys) {
    draws.push_back(draw(key));
    EXPECT_EQ(draw(key), draws.back());
  }
  std::sort(draws.begin(), draws.end());
  EXPECT_EQ(std::unique(draws.begin(), draws.end()), draws.end()) << "seven draws of 5000 that should differ";
}

/// Chi-square of draws from one row over positions against softmax, for fixed seeds.
TEST(GumbelArgmax, DrawsFollowSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f, 0.5f, -3.0f, 0.25f, 1.5f, -0.5f, -2.0f,
                                     0.1f, 0.2f, 0.3f,  0.4f, 0.6f, 0.7f,  0.8f,  0.9f, -1.5f, -2.5f};
  const auto n = static_cast<int64_t>(logits.size());
  constexpr int kDraws = 200'000;
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    for (const bool vary_choice : {false, true}) {
      std::vector<double> weight;
      double sum = 0;
      for (const float logit : logits) {
        weight.push_back(std::exp(static_cast<double>(logit) / static_cast<double>(temperature)));
        sum += weight.back();
      }
      std::vector<int> seen(logits.size(), 0);
      for (int i = 0; i < kDraws; ++i) {
        const auto step = static_cast<uint32_t>(i);
        const NoiseKey key = {42, vary_choice ? step : 0, vary_choice ? 17 : uint64_t{step}};
        const float factor = inverse_temperature(temperature);
        ++seen[static_cast<size_t>(gumbel_argmax_row(best_cpu_path(), logits.data(), n, 0, factor, key).id)];
      }
      double chi_square = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        const double expected = kDraws * weight[i] / sum;
        chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
      }
      fmt::print("  chi-square {:.1f} with 19 degrees of freedom\n", chi_square);
      EXPECT_LT(chi_square, 43.8);  // one in a thousand
      EXPECT_GT(chi_square, 4.0);
    }
  }
}

}  // namespace
}  // namespace krait::kernels
