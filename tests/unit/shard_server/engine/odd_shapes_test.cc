// Models of odd sizes, seeded, at every number of ranks: sharded equals whole. Ranges may be empty, channels need not
// divide, windows and states have other sizes than the usual 4 and 16.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rng.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

// Float32 sums in another order: far below what a misplaced channel does.
constexpr double kTolerance = 2e-4;

int64_t between(SplitMix64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}

/// A config.json of random sizes; one in two has channels that divide by eight.
std::string random_config(SplitMix64& random) {
  const int64_t inner = random.below(2) == 0 ? 8 * between(random, 1, 20) : between(random, 3, 150);
  const auto flag = [&] { return random.below(2) == 0 ? "true" : "false"; };
  return fmt::format(
      R"({{"model_type": "mamba", "hidden_size": {}, "intermediate_size": {}, "state_size": {}, "time_step_rank": {},
          "conv_kernel": {}, "num_hidden_layers": {}, "vocab_size": {}, "use_bias": {}, "use_conv_bias": {},
          "tie_word_embeddings": {}, "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "eos_token_id": 0}})",
      between(random, 5, 90), inner, between(random, 1, 20), between(random, 1, 9), between(random, 2, 4),
      between(random, 1, 3), between(random, 3, 200), flag(), flag(), flag());
}

SequenceResult run(const std::string& model, int world, DType dtype, const std::vector<int32_t>& prompt,
                   int64_t chunk) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  options.dtype = dtype;
  EngineGroup group(options);
  group.keep_logits();
  wire::SamplingParams sampling;
  sampling.temperature = 0;
  sampling.prompt_logprobs = true;
  sampling.logprobs = 0;
  return run_sequence(group, 1, prompt, chunk, 1, sampling);
}

double distance(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL;
  for (size_t t = 0; t < a.size() && t < b.size(); ++t) {
    for (size_t i = 0; i < a[t].size(); ++i) {
      const double difference = std::abs(double{a[t][i]} - b[t][i]) / (1 + std::abs(double{b[t][i]}));
      worst = std::isnan(difference) ? HUGE_VAL : std::max(worst, difference);
    }
  }
  return worst;
}

void check_model(uint64_t seed) {
  SplitMix64 random(seed);
  const std::string config_json = random_config(random);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, config_json));
  const auto config = parse_model_config(config_json);
  ASSERT_TRUE(config.ok()) << to_string(config.error());
  const auto plan = make_model_plan(*config);
  ASSERT_TRUE(plan.ok());
  const ScratchDir folder;
  write_checkpoint(folder.path(), config_json, random_tensors(*plan, seed), 1 + static_cast<int>(random.below(3)));
  std::vector<int32_t> prompt;
  for (int i = 0; i < 9; ++i)
    prompt.push_back(static_cast<int32_t>(random.below(uint64_t(config->vocab_size))));

  const auto whole = run(folder.path(), 1, DType::kF32, prompt, 9);
  EXPECT_TRUE(run(folder.path(), 1, DType::kF32, prompt, 2).prompt_logits == whole.prompt_logits) << "chunks of 2";
  for (int world = 2; world <= 8; ++world) {
    const bool aligned = make_partition(*config, world)->aligned;
    const auto sharded = run(folder.path(), world, DType::kF32, prompt, 4);
    if (aligned) {
      EXPECT_TRUE(sharded.prompt_logits == whole.prompt_logits) << "other bits at world " << world;
      EXPECT_TRUE(sharded.after_prompt == whole.after_prompt) << "other states at world " << world;
    }
    EXPECT_LE(distance(sharded.prompt_logits, whole.prompt_logits), kTolerance) << "world " << world;
  }
}

TEST(OddShapes, ShardedEqualsWhole) {
  const int models = draws({.usual = 6, .sanitized = 2, .long_run = 60});
  for (int seed = 1; seed <= models; ++seed)
    check_model(static_cast<uint64_t>(seed));
}

TEST(OddShapes, WeightsThatAreNoNumbersStillGiveATokenOfTheVocabulary) {
  // Every logit is NaN, and most ranks hold no vocabulary at all.
  const std::string config_json =
      R"({"model_type": "mamba", "hidden_size": 16, "intermediate_size": 32, "state_size": 4, "time_step_rank": 2,
          "num_hidden_layers": 1, "vocab_size": 20, "tie_word_embeddings": true})";
  const auto plan = make_model_plan(*parse_model_config(config_json));
  auto tensors = random_tensors(*plan, 1);
  for (auto& tensor : tensors) {
    if (tensor.name != "backbone.norm_f.weight") continue;
    tensor.bytes = encode_floats(std::vector<float>(16, NAN), DType::kF32);
  }
  const ScratchDir folder;
  write_checkpoint(folder.path(), config_json, tensors);
  for (const float temperature : {0.0f, 1.0f}) {
    EngineGroupOptions options;
    options.model_dir = folder.path();
    options.world = 8;
    EngineGroup group(options);
    wire::SamplingParams sampling;
    sampling.temperature = temperature;
    for (const int32_t token : run_sequence(group, 0, {3, 5}, 2, 4, sampling).tokens) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 20);
    }
  }
}

TEST(OddShapes, AStepThatWritesASlotTwiceIsRefused) {
  EngineGroupOptions options;
  options.model_dir = golden_path("models/mamba");
  EngineGroup group(options);
  wire::Step step;
  for (const int32_t slot : {0, 1}) {
    step.admissions.push_back({slot, 1, {}});
    auto& run = step.runs.emplace_back();
    run.in_slot = -1;
    run.out_slot = 1;
    run.sequence_slot = slot;
    run.tokens = {1};
  }
  EXPECT_THROW(group.step(step), std::runtime_error);
}

}  // namespace
}  // namespace krait::test
