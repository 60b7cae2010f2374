// A sequence that goes on from another's state, and shares its pages, has the bits of one that read everything itself.
#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "kernels/attention/paged_attention.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

constexpr int64_t kPrompt = 90;
constexpr int64_t kFork = kPrompt / kernels::kPageTokens * kernels::kPageTokens;
constexpr uint32_t kTokens = 20;

wire::SamplingParams sampled() {
  wire::SamplingParams sampling;
  sampling.temperature = 1;
  sampling.seed = 9;
  sampling.choice = 1;
  return sampling;
}

/// Slot 1 reads the prompt; slot 2 goes on from the fork. What slot 2 does, while slot 1 goes on too.
SequenceResult run_forked(EngineGroup& group, const std::vector<int32_t>& prompt) {
  std::vector<int32_t> pages = group.pages(2);
  const auto lead_pages = group.pages(1);
  std::copy_n(lead_pages.begin(), pages.empty() ? 0 : kFork / kernels::kPageTokens, pages.begin());
  wire::SamplingParams lead = sampled();
  lead.choice = 0;
  wire::Step first;
  first.admissions.push_back({1, kPrompt, lead, lead_pages});
  first.admissions.push_back({2, kPrompt, sampled(), pages});
  first.runs.push_back({-1, 1, 1, 0, prompt, true, false, -1});
  first.taps.push_back({kFork - 1, 2});
  group.step(first);

  SequenceResult result;
  for (uint32_t i = 0; i < kTokens; ++i) {
    wire::Step step;
    const auto generated = static_cast<uint32_t>(kPrompt) + i;
    step.runs.push_back({1, 1, 1, generated, {}, true, false, -1});
    auto& run = step.runs.emplace_back(wire::StepRun{2, 2, 2, generated - 1, {}, true, false, -1});
    if (i == 0) {
      run.position = kFork;
      run.tokens.assign(prompt.begin() + kFork, prompt.end());
    }
    const auto done = group.step(step);
    result.tokens.push_back(done.samples.at(1).token.token);
    if (i > 0) result.decode_logits.push_back(group.logits().rbegin()->second);
    if (i == 0) result.after_prompt = group.state(2, kPrompt);
  }
  return result;
}

TEST(Fork, HasTheBitsOfASequenceThatReadEverythingItself) {
  for (const std::string& family : golden_families()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
      EngineGroupOptions options;
      options.model_dir = golden_path("models/" + family);
      options.world = 2;
      options.dtype = dtype;
      SplitMix64 random(31);
      std::vector<int32_t> prompt;
      for (int64_t i = 0; i < kPrompt; ++i)
        prompt.push_back(static_cast<int32_t>(random.below(500)));
      EngineGroup group(options);
      group.keep_logits();
      auto alone = run_sequence(group, 3, prompt, kPrompt, kTokens, sampled());
      alone.prompt_logits.clear();
      EXPECT_TRUE(run_forked(group, prompt) == alone) << family << " " << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace krait::test
