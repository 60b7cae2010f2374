// Ranks that hold the whole model each: every sequence lives at one of them, and a long prompt is read by several, with
// the bits of one rank that reads it alone.
#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

constexpr uint32_t kTokens = 6;

wire::SamplingParams sampled() {
  wire::SamplingParams sampling;
  sampling.temperature = 1;
  sampling.seed = 7;
  sampling.repetition_penalty = 1.5;  // counts the prompt's tokens, whoever read them
  return sampling;
}

std::vector<int32_t> random_prompt(int64_t tokens) {
  SplitMix64 random(17);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>(random.below(500)));
  return prompt;
}

/// The prompt in equal steps, each shared by `ranks`, then tokens one by one.
SequenceResult run(EngineGroup& group, int32_t slot, const std::vector<int32_t>& prompt, int64_t steps,
                   uint32_t ranks) {
  return run_sequence(group, slot, prompt, ceil_div(std::ssize(prompt), steps), kTokens, sampled(), ranks);
}

EngineGroupOptions options_of(const std::string& family, int world, DType dtype) {
  EngineGroupOptions options;
  options.model_dir = golden_path("models/" + family);
  options.world = world;
  options.whole_weights = world > 1;
  options.dtype = dtype;
  options.max_rows = 32;  // a part goes through a layer in several pieces
  return options;
}

bool has_pages(const EngineGroup& group) {
  return !group.config().shared.layers.empty();
}

TEST(WholeWeights, APromptThatRanksShareHasTheBitsOfOneThatOneRankReads) {
  const auto prompt = random_prompt(203);
  int shared = 0;
  for (const std::string& family : golden_families()) {
    for (const DType dtype : {DType::kF32, DType::kI8}) {
      EngineGroup alone(options_of(family, 1, dtype));
      if (has_pages(alone)) continue;
      alone.keep_logits();
      const auto expected = run(alone, 1, prompt, 8, 1);
      EngineGroup group(options_of(family, 3, dtype));
      group.keep_logits();
      for (const int32_t slot : {0, 1, 2}) {
        for (const uint32_t ranks : {2u, 3u}) {
          // In one step, and in two: then the state of the first goes to whoever reads the second first.
          EXPECT_TRUE(run(group, slot, prompt, 1, ranks) == expected) << family << " " << slot << " " << ranks;
          EXPECT_TRUE(run(group, slot, prompt, 2, ranks) == expected) << family << " " << slot << " " << ranks;
        }
      }
      ++shared;
    }
  }
  EXPECT_GE(shared, 6);
}

TEST(WholeWeights, EightRanksShareAPromptInSeveralSteps) {
  const auto prompt = random_prompt(203);
  EngineGroup alone(options_of("mamba2", 1, DType::kBF16));
  alone.keep_logits();
  const auto expected = run(alone, 1, prompt, 8, 1);
  EngineGroup group(options_of("mamba2", 8, DType::kBF16));
  group.keep_logits();
  for (const uint32_t ranks : {5u, 8u})
    EXPECT_TRUE(run(group, 1, prompt, 3, ranks) == expected) << ranks;
}

TEST(WholeWeights, SequencesOfOneStepLiveAtTheirRanks) {
  for (const std::string& family : golden_families()) {
    EngineGroup alone(options_of(family, 1, DType::kF32));
    EngineGroup group(options_of(family, 2, DType::kF32));
    std::vector<std::vector<int32_t>> tokens(2);
    for (int i = 0; i < 2; ++i) {
      EngineGroup& here = i == 0 ? alone : group;
      wire::Step step;
      for (const int32_t slot : {0, 1, 2}) {
        const auto prompt = random_prompt(9 + slot);
        step.admissions.push_back({slot, static_cast<uint32_t>(prompt.size()), sampled(), here.pages(slot)});
        step.runs.push_back({-1, slot, slot, 0, prompt, true, false, -1, 1});
      }
      // The state after a row of the third run, a fork, is written beside it.
      step.admissions.push_back({3, 11, sampled(), here.pages(3)});
      const auto take = [&](const wire::StepDone& done) {
        for (const auto& sample : done.samples)
          tokens[static_cast<size_t>(i)].push_back(sample.token.token);
      };
      take(here.step(step));
      for (uint32_t at = 0; at < 4; ++at) {
        wire::Step decode;
        for (const int32_t slot : {2, 0, 1})
          decode.runs.push_back({slot, slot, slot, static_cast<uint32_t>(9 + slot) + at, {}, true, false, -1, 1});
        take(here.step(decode));
      }
    }
    EXPECT_EQ(tokens[0].size(), 15u);
    EXPECT_EQ(tokens[0], tokens[1]) << family;
  }
}

TEST(WholeWeights, AForkGoesWithItsRow) {
  EngineGroup alone(options_of("mamba", 1, DType::kF32));
  EngineGroup group(options_of("mamba", 2, DType::kF32));
  std::vector<shard::WholeState> states;
  for (EngineGroup* here : {&alone, &group}) {
    wire::Step step;
    for (const int32_t slot : {0, 1, 3})
      step.admissions.push_back({slot, 12, sampled(), {}});
    step.runs.push_back({-1, 0, 0, 0, random_prompt(12), false, false, -1, 1});
    step.runs.push_back({-1, 1, 1, 0, random_prompt(12), false, false, -1, 1});
    step.taps.push_back({12 + 7, 3});  // of the second run, which slot 3 lives beside
    here->step(step);
    states.push_back(here->state(3, 8));
  }
  EXPECT_TRUE(states[0] == states[1]);
}

TEST(WholeWeights, RunsThatCannotBeSharedAreRefused) {
  EngineGroup group(options_of("mamba", 2, DType::kF32));
  const auto step_of = [](uint32_t ranks, int64_t tokens) {
    wire::Step step;
    step.admissions.push_back({0, static_cast<uint32_t>(tokens), sampled(), {}});
    step.runs.push_back({-1, 0, 0, 0, random_prompt(tokens), true, false, -1, ranks});
    return step;
  };
  EXPECT_THROW(group.step(step_of(3, 100)), std::runtime_error) << "more ranks than there are";
  EXPECT_THROW(group.step(step_of(2, 1)), std::runtime_error) << "fewer tokens than ranks";
  EXPECT_THROW(group.step(step_of(2, 2 * limits::kSharedPromptRows + 1)), std::runtime_error) << "more than fit";
  auto beside = step_of(2, 100);
  beside.admissions.push_back({1, 10, sampled(), {}});
  beside.runs.push_back({-1, 1, 1, 0, random_prompt(10), true, false, -1, 1});
  EXPECT_THROW(group.step(beside), std::runtime_error) << "beside another run";
  auto scored = step_of(2, 100);
  scored.runs[0].prompt_logprobs = true;
  auto elsewhere = step_of(1, 20);
  elsewhere.taps.push_back({3, 1});
  EXPECT_THROW(group.step(elsewhere), std::runtime_error) << "a tap to a slot that lives at another rank";
  EXPECT_THROW(group.step(scored), std::runtime_error) << "with logprobs of all tokens";
  EXPECT_NO_THROW(group.step(step_of(2, 100)));
}

}  // namespace
}  // namespace krait::test
