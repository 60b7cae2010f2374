#include "kernels/sampling/sample_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Which ids survive the filters, by sorting the whole row, and with what values. The formulas of the header, in
/// double where the kernel's rounding cannot matter (rows whose cuts do not fall on a rounding).
struct NaiveResult final {
  std::set<int32_t> kept;
  std::vector<float> scaled;
};

NaiveResult naive(std::vector<float> logits, const SampleParams& params, std::span<const SeenToken> history) {
  for (const LogitBias& b : params.logit_bias)
    logits[static_cast<size_t>(b.id)] += b.bias;
  for (const SeenToken& s : history) {
    float& l = logits[static_cast<size_t>(s.id)];
    if (s.in_prompt || s.output_count > 0) {
      l = l > 0 ? l / params.repetition_penalty : l * params.repetition_penalty;
    }
    l -= params.frequency_penalty * static_cast<float>(s.output_count);
    if (s.output_count > 0) l -= params.presence_penalty;
  }
  for (const int32_t id : params.banned)
    logits[static_cast<size_t>(id)] = -kInf;
  std::vector<Candidate> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] *= 1.0f / params.temperature;
    if (logits[i] > -kInf) order.push_back({logits[i], static_cast<int32_t>(i)});
  }
  std::sort(order.begin(), order.end(), comes_before);
  const auto weight = [&](const Candidate& c) {
    return std::exp(static_cast<double>(c.value) - static_cast<double>(order.front().value));
  };
  while (params.min_p > 0 && weight(order.back()) < static_cast<double>(params.min_p))
    order.pop_back();
  if (params.top_k > 0 && order.size() > static_cast<size_t>(params.top_k)) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  if (params.top_p < 1.0) {
    double total = 0, sum = 0;
    for (const Candidate& c : order)
      total += weight(c);
    size_t count = 0;
    do
      sum += weight(order[count++]);
    while (sum < params.top_p * total && count < order.size());
    order.resize(count);
  }
  NaiveResult result;
  result.scaled.assign(logits.size(), -kInf);
  for (const Candidate& c : order) {
    result.kept.insert(c.id);
    result.scaled[static_cast<size_t>(c.id)] = c.value;
  }
  return result;
}

/// Asks that each draw is the Gumbel maximum over what the naive version keeps, on every path.
void expect_naive(const std::vector<float>& logits, SampleParams params, std::span<const SeenToken> history,
                  int draws) {
  const auto n = static_cast<int64_t>(logits.size());
  SampleScratch scratch(n);
  const NaiveResult expected = naive(logits, params, history);
  for (int draw = 0; draw < draws; ++draw) {
    params.key.position = static_cast<uint64_t>(draw);
    const int32_t id = gumbel_argmax_row(CpuPath::kPortable, expected.scaled.data(), n, 0, 1.0f, params.key).id;
    for (const CpuPath path : runnable_paths()) {
      std::vector<float> row = logits;
      ASSERT_EQ(sample_row(path, row, params, history, scratch), id) << cpu_path_name(path) << " draw " << draw;
    }
  }
}

std::vector<float> tied_logits(SplitMix64& rng, int64_t n, double spread) {
  std::vector<float> logits = random_floats(rng, n, -spread, spread);
  for (float& value : logits)
    value = std::round(value * 4) / 4;
  return logits;
}

TEST(SampleRow, FiltersEqualAFullSortOnRandomRowsWithTies) {
  SplitMix64 rng(1);
  for (int round = 0; round < 300; ++round) {
    const auto n = static_cast<int64_t>(1 + rng.below(round % 10 == 0 ? 3000 : 90));
    std::vector<float> logits = tied_logits(rng, n, round % 3 == 0 ? 40.0 : 4.0);
    if (round % 3 == 1) logits = random_floats(rng, n, 0.0, 0.2);  // many different values close to each cut
    SampleParams params;
    params.temperature = static_cast<float>(0.3 + rng.uniform());
    if (rng.below(2) == 0) params.top_k = static_cast<int32_t>(1 + rng.below(static_cast<uint64_t>(n) + 2));
    if (rng.below(2) == 0) params.top_p = rng.uniform();
    if (rng.below(2) == 0) params.min_p = static_cast<float>(rng.uniform() * 0.5);
    params.key = {rng.next(), 3, 0};
    expect_naive(logits, params, {}, 4);
  }
}

TEST(SampleRow, PenaltiesBiasAndBans) {
  SplitMix64 rng(2);
  for (int round = 0; round < 100; ++round) {
    const std::vector<float> logits = tied_logits(rng, 60, 3.0);
    std::vector<SeenToken> history;
    for (int32_t id = 0; id < 60; id += 1 + static_cast<int32_t>(rng.below(4))) {
      history.push_back({id, static_cast<int32_t>(rng.below(4)), rng.below(2) == 0});
    }
    const std::vector<LogitBias> bias = {{5, 2.5f}, {17, -100.0f}, {30, 1.0f}};
    const std::vector<int32_t> banned = {7, 59};
    SampleParams params;
    params.presence_penalty = static_cast<float>(rng.uniform() * 4 - 2);
    params.frequency_penalty = static_cast<float>(rng.uniform() * 4 - 2);
    params.repetition_penalty = static_cast<float>(0.5 + rng.uniform());
    params.logit_bias = bias;
    params.banned = banned;
    params.key.seed = rng.next();
    if (round % 2 == 0) params.top_k = 12;
    expect_naive(logits, params, history, 3);

    params.temperature = 0.0f;
    SampleParams unscaled = params;
    unscaled.temperature = 1.0f;
    const NaiveResult expected = naive(logits, unscaled, history);
    const auto best = std::max_element(expected.scaled.begin(), expected.scaled.end()) - expected.scaled.begin();
    std::vector<float> row = logits;
    SampleScratch scratch(60);
    EXPECT_EQ(sample_row(best_cpu_path(), row, params, history, scratch), best) << "greedy";
  }
}

TEST(SampleRow, PenaltiesByHand) {
  // Repetition divides what is positive and multiplies what is negative, in the prompt as in the output; presence and
  // frequency look at the output alone.
  const std::vector<float> logits = {4.0f, -2.0f, 3.0f, 3.5f};
  const std::vector<SeenToken> history = {{0, 0, true}, {1, 2, false}, {3, 3, true}};
  SampleScratch scratch(4);
  SampleParams params;
  params.temperature = 0;
  params.repetition_penalty = 2.0f;
  params.frequency_penalty = 0.25f;
  params.presence_penalty = 0.5f;
  std::vector<float> row = logits;
  EXPECT_EQ(sample_row(best_cpu_path(), row, params, history, scratch), 2);
  EXPECT_EQ(row, (std::vector<float>{2.0f, -5.0f, 3.0f, 0.5f}));
}

TEST(SampleRow, TopPKeepsTheShortestBeginningThatReachesIt) {
  const std::vector<float> logits(10, 1.5f);  // ten equal tokens: shares of exactly a tenth
  SampleScratch scratch(10);
  const auto kept = [&](double top_p) {
    std::set<int32_t> seen;
    SampleParams params;
    params.top_p = top_p;
    for (uint64_t position = 0; position < 400; ++position) {
      params.key.position = position;
      std::vector<float> row = logits;
      seen.insert(sample_row(best_cpu_path(), row, params, {}, scratch));
    }
    EXPECT_EQ(*seen.rbegin(), static_cast<int32_t>(seen.size()) - 1) << "lower ids first";
    return seen.size();
  };
  EXPECT_EQ(kept(0.0), 1u);
  EXPECT_EQ(kept(0.1), 1u);
  EXPECT_EQ(kept(0.5), 5u);
  EXPECT_EQ(kept(0.51), 6u);
  EXPECT_EQ(kept(0.8), 8u);
  EXPECT_EQ(kept(0.95), 10u);
}

TEST(SampleRow, WithoutFiltersItIsTheGumbelMaximumOfTheRow) {
  SplitMix64 rng(6);
  const std::vector<float> logits = random_floats(rng, 1000, -5, 5);
  SampleScratch scratch(50'280);
  for (uint64_t position = 0; position < 50; ++position) {
    SampleParams params;
    params.temperature = 0.8f;
    params.key = {11, 2, position};
    const int32_t expected =
        gumbel_argmax_row(best_cpu_path(), logits.data(), 1000, 0, inverse_temperature(0.8f), params.key).id;
    std::vector<float> row = logits;
    EXPECT_EQ(sample_row(best_cpu_path(), row, params, {}, scratch), expected);
    params.top_p = 0.999999999;  // filters that keep all change nothing
    row = logits;
    EXPECT_EQ(sample_row(best_cpu_path(), row, params, {}, scratch), expected);
    params.top_p = 1.0;
    params.top_k = 1000;
    params.min_p = 1e-30f;
    row = logits;
    EXPECT_EQ(sample_row(best_cpu_path(), row, params, {}, scratch), expected);
  }
}

TEST(SampleRow, OddRowsHaveAnAnswer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SampleParams params;
  params.top_p = 0.5;
  params.top_k = 3;
  SampleScratch scratch(8);
  const auto sample = [&](std::vector<float> row) { return sample_row(best_cpu_path(), row, params, {}, scratch); };
  EXPECT_EQ(sample({-kInf, -kInf, -kInf}), 0);
  EXPECT_EQ(sample({nan, nan}), 0);
  EXPECT_EQ(sample({nan, -1.0f, nan, nan}), 1);
  EXPECT_EQ(sample({0.0f, kInf, nan, kInf}), 1);
  EXPECT_EQ(sample({-3e38f, 3e38f}), 1);
  params.temperature = 1e-30f;
  EXPECT_EQ(sample({1.0f, 2.0f}), 1);
  const std::vector<LogitBias> bias = {{-1, 5.0f}, {9, 5.0f}};
  const std::vector<int32_t> banned = {-7, 2, 100};
  const std::vector<SeenToken> history = {{-2, 1, true}, {77, 1, true}};
  params.temperature = 1.0f;
  params.logit_bias = bias;
  params.banned = banned;
  std::vector<float> row = {1.0f, -50.0f, 9.0f};
  EXPECT_EQ(sample_row(best_cpu_path(), row, params, history, scratch), 0) << "ids outside the row are ignored";
}

TEST(SampleRow, TopPAndTopKDrawsFollowTheRenormalizedShares) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  SampleScratch scratch(4);
  SampleParams params;
  params.top_k = 3;     // 4/9, 3/9, 2/9 are left
  params.top_p = 0.75;  // of which the first two make 7/9
  constexpr int kDraws = 100'000;
  std::vector<int> seen(4, 0);
  for (int i = 0; i < kDraws; ++i) {
    params.key = {5, 0, static_cast<uint64_t>(i)};
    std::vector<float> row = logits;
    ++seen[static_cast<size_t>(sample_row(best_cpu_path(), row, params, {}, scratch))];
  }
  EXPECT_EQ(seen[2] + seen[3], 0);
  const double expected = kDraws * 4.0 / 7.0;
  EXPECT_NEAR(seen[0], expected, 4 * std::sqrt(kDraws * 4.0 / 7.0 * 3.0 / 7.0));
}

}  // namespace
}  // namespace krait::kernels
