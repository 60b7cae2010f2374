// The rule that chooses codecs: compared with all choices there are, where those can be counted.
#include "deploy/tools/codec_choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rng.h"

namespace krait::tools {
namespace {

// Four codecs of 4, 2, 1 and 1/2 bytes.
SumCosts costs(double two, double one, double half) {
  return {{4, 0}, {2, two}, {1, one}, {0.5, half}};
}

TEST(ChooseCodecs, WithoutABudgetOnlyWhatCostsNothingIsRounded) {
  const std::vector<SumCosts> sums = {costs(0, 0.1, 1), costs(0.1, 1, 2), costs(0, 0, 0)};
  EXPECT_EQ(choose_codecs(sums, 0), (CodecChoice{1, 0, 3}));
  EXPECT_EQ(choose_codecs(std::vector<SumCosts>{}, 1), CodecChoice{});
}

TEST(ChooseCodecs, WithAnyBudgetTheSmallestCodecsAreTaken) {
  const std::vector<SumCosts> sums = {costs(1, 2, 3), costs(1, 20, 300)};
  EXPECT_EQ(choose_codecs(sums, 1e9), (CodecChoice{3, 3}));
}

TEST(ChooseCodecs, WhatSavesMostForItsDamageComesFirst) {
  // Both cannot be had: the second sum's codec saves as much and harms less.
  const std::vector<SumCosts> sums = {{{4, 0}, {1, 0.9}}, {{4, 0}, {1, 0.2}}};
  EXPECT_EQ(choose_codecs(sums, 1), (CodecChoice{0, 1}));
  EXPECT_EQ(choose_codecs(sums, 1.1), (CodecChoice{1, 1}));
}

TEST(ChooseCodecs, OfTwoCodecsOfOneSizeTheMilderIsTaken) {
  const std::vector<SumCosts> sums = {{{4, 0}, {1, 0.5}, {1, 0.2}}, {{4, 0}, {1, 0.2}, {1, 0.5}}};
  EXPECT_EQ(choose_codecs(sums, 10), (CodecChoice{2, 1}));
}

std::vector<SumCosts> random_sums(SplitMix64& random, size_t count) {
  std::vector<SumCosts> sums;
  for (size_t i = 0; i < count; ++i) {
    const double two = random.uniform() * 0.3;
    const double one = two + random.uniform() * 0.3;
    sums.push_back(costs(two, one, one + random.uniform() * 0.3));
  }
  return sums;
}

TEST(ChooseCodecs, StaysWithinTheBudgetAndNearTheBestOfAllChoices) {
  SplitMix64 random(5);
  double ratios = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    const auto sums = random_sums(random, 5);
    const double budget = 2 * random.uniform();
    const CodecChoice choice = choose_codecs(sums, budget);
    EXPECT_LE(damage_of(sums, choice), budget);
    double best = bytes_of(sums, CodecChoice(5, 0));
    for (size_t all = 0; all < 1024; ++all) {
      CodecChoice other;
      for (size_t i = 0; i < 5; ++i)
        other.push_back(all >> (2 * i) & 3);
      if (damage_of(sums, other) <= budget) best = std::min(best, bytes_of(sums, other));
    }
    EXPECT_GE(bytes_of(sums, choice), best);
    ratios += bytes_of(sums, choice) / best;
  }
  std::printf("  bytes: %.3f of the least that is possible, in the mean\n", ratios / kRounds);
  EXPECT_LE(ratios / kRounds, 1.1);
}

TEST(BackOff, TakesAwayDamageStepByStepUntilAllIsExact) {
  SplitMix64 random(6);
  const auto sums = random_sums(random, 6);
  CodecChoice choice = choose_codecs(sums, 1e9);
  int steps = 0;
  for (double bytes = bytes_of(sums, choice); back_off(sums, choice); ++steps) {
    EXPECT_GT(bytes_of(sums, choice), bytes);
    bytes = bytes_of(sums, choice);
  }
  EXPECT_EQ(choice, CodecChoice(6, 0));
  EXPECT_GE(steps, 6);
}

TEST(BackOff, BeginsWithTheSumThatHarmsMost) {
  const std::vector<SumCosts> sums = {{{4, 0}, {1, 0.2}}, {{4, 0}, {1, 0.9}}, {{4, 0}, {1, 0}}};
  CodecChoice choice = {1, 1, 1};
  EXPECT_TRUE(back_off(sums, choice));
  EXPECT_EQ(choice, (CodecChoice{1, 0, 1}));
  EXPECT_TRUE(back_off(sums, choice));
  EXPECT_TRUE(back_off(sums, choice)) << "also what seemed to cost nothing";
  EXPECT_EQ(choice, (CodecChoice{0, 0, 0}));
  EXPECT_FALSE(back_off(sums, choice));
}

TEST(ChooseVerified, BelievesWhatWasRunAndNotTheSum) {
  SplitMix64 random(7);
  const auto sums = random_sums(random, 6);
  // Together three times what they do alone.
  const auto run = [&](const CodecChoice& choice) -> Result<double> { return 3 * damage_of(sums, choice); };
  const VerifiedChoice verified = choose_verified(sums, 0.5, run).value();
  EXPECT_GT(verified.runs, 1);
  EXPECT_LE(3 * damage_of(sums, verified.choice), 0.5);
  EXPECT_EQ(verified.damage, 3 * damage_of(sums, verified.choice));
  const VerifiedChoice as_told = choose_verified(sums, 0.5, [&](const CodecChoice& choice) -> Result<double> {
                                   return damage_of(sums, choice);
                                 }).value();
  EXPECT_EQ(as_told.runs, 1);
  EXPECT_EQ(as_told.choice, choose_codecs(sums, 0.5));
}

TEST(ChooseVerified, EndsWithExactSumsWhereNothingElseHolds) {
  SplitMix64 random(8);
  const auto sums = random_sums(random, 3);
  int runs = 0;
  const auto verified = choose_verified(sums, 0.5, [&](const CodecChoice&) -> Result<double> {
    ++runs;
    return 1.0;
  });
  EXPECT_EQ(verified->choice, CodecChoice(3, 0));
  EXPECT_EQ(verified->damage, 0);
  EXPECT_EQ(verified->runs, runs);
  EXPECT_FALSE(choose_verified(sums, 0.5, [](const CodecChoice&) -> Result<double> {
                 return Error{Errc::kInternal, "no", ""};
               }).ok());
}

}  // namespace
}  // namespace krait::tools
