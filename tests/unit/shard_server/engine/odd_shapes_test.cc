// Models of odd sizes, seeded, at every number of ranks: sharded equals whole. Ranges may be empty, channels need not
// divide, windows and states have other sizes than the usual 4 and 16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/rng.h"
#include "common/model/architecture.h"
#include "common/tensor/half.h"
#include "tests/support/cluster/among_others.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"
#include "tests/support/random_model.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

// Float32 sums in another order: far below what a misplaced channel does.
constexpr double kTolerance = 2e-4;

SequenceResult run(const std::string& model, int world, DType dtype, const std::vector<int32_t>& prompt, int64_t chunk,
                   std::vector<double> shares = {}) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  options.dtype = dtype;
  options.shares = std::move(shares);
  EngineGroup group(options);
  group.keep_logits();
  return run_sequence(group, 1, prompt, chunk, 3, scored_greedily());
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

void check_model(std::string_view architecture, uint64_t seed) {
  const ScratchDir folder;
  const RandomModel model = write_random_model(folder.path(), architecture, seed);
  SCOPED_TRACE(fmt::format("seed {}, {}, {} files: {}", seed, dtype_name(model.dtype), model.files, model.config_json));
  SplitMix64 random(seed);
  std::vector<int32_t> prompt;
  for (int i = 0; i < 9; ++i)
    prompt.push_back(static_cast<int32_t>(random.below(uint64_t(model.config.vocab_size))));

  const auto whole = run(folder.path(), 1, DType::kF32, prompt, 9);
  EXPECT_TRUE(run(folder.path(), 1, DType::kF32, prompt, 2) == whole) << "chunks of 2";
  EngineGroupOptions crowded;
  crowded.model_dir = folder.path();
  crowded.slots = 8;
  EXPECT_TRUE(run_among_others(crowded, prompt, 3, scored_greedily()) == whole) << "among others";
  for (int world = 2; world <= 8; ++world) {
    const bool aligned = make_partition(model.config, world)->aligned;
    const auto sharded = run(folder.path(), world, DType::kF32, prompt, 4);
    if (aligned) {
      EXPECT_TRUE(sharded.prompt_logits == whole.prompt_logits) << "other bits at world " << world;
      EXPECT_TRUE(sharded.after_prompt == whole.after_prompt) << "other states at world " << world;
    }
    EXPECT_LE(distance(sharded.prompt_logits, whole.prompt_logits), kTolerance) << "world " << world;
  }
  const auto uneven = run(folder.path(), 3, DType::kF32, prompt, 4, {3, 1, 2});
  EXPECT_LE(distance(uneven.prompt_logits, whole.prompt_logits), kTolerance) << "shares";
  for (const int world : {2, 8}) {
    if (!make_partition(model.config, world)->aligned) continue;
    for (const DType dtype : {DType::kBF16, DType::kI8, DType::kI4}) {
      const auto one = run(folder.path(), 1, dtype, prompt, 9);
      EXPECT_TRUE(run(folder.path(), world, dtype, prompt, 2).prompt_logits == one.prompt_logits)
          << "other bits in " << weight_type_name(dtype) << " at world " << world;
    }
  }
}

class OddShapes : public testing::TestWithParam<std::string> {};

TEST_P(OddShapes, ShardedEqualsWhole) {
  const int models = draws({.usual = 5, .sanitized = 2, .long_run = 60});
  for (int seed = 1; seed <= models; ++seed)
    check_model(GetParam(), static_cast<uint64_t>(seed));
}

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Architecture* architecture : all_architectures())
    names.emplace_back(architecture->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, OddShapes, testing::ValuesIn(architectures()),
                         [](const auto& info) { return info.param; });

/// The same values as float32, as `read` understands the two bytes of each.
std::vector<TensorToWrite> widened(std::vector<TensorToWrite> tensors, float (*read)(uint16_t)) {
  for (TensorToWrite& tensor : tensors) {
    std::vector<float> values;
    for (size_t at = 0; at < tensor.bytes.size(); at += 2) {
      uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + at, 2);
      values.push_back(read(bits));
    }
    tensor.bytes = encode_floats(values, DType::kF32);
    tensor.dtype = DType::kF32;
  }
  return tensors;
}

TEST_P(OddShapes, HalvesAndBfloat16AreReadExactly) {
  SplitMix64 random(7);
  const std::string config_json = random_config(GetParam(), random);
  const auto config = parse_model_config(config_json);
  const std::vector<int32_t> prompt(5, static_cast<int32_t>(config->vocab_size - 1));
  const auto logits = [&](const std::vector<TensorToWrite>& tensors, DType dtype) {
    const ScratchDir folder;
    write_checkpoint(folder.path(), config_json, tensors);
    return run(folder.path(), 2, dtype, prompt, 5).prompt_logits;
  };
  const ModelPlan plan = make_model_plan(*config).value();
  const auto halves = random_tensors(plan, 7, DType::kF16);
  const auto bf16 = random_tensors(plan, 7, DType::kBF16);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(logits(halves, dtype), logits(widened(halves, f16_to_f32), dtype));
    EXPECT_EQ(logits(bf16, dtype), logits(widened(bf16, bf16_to_f32), dtype));
  }
}

TEST(OddModels, AStepThatWritesASlotTwiceIsRefused) {
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
