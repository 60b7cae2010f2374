// Models of odd sizes, seeded, at every number of ranks: sharded equals whole. Ranges may be empty, channels need not
// divide, windows and states have other sizes than the usual 4 and 16.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/rng.h"
#include "common/model/architecture.h"
#include "tests/support/cluster/engine_group.h"
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

void check_model(std::string_view architecture, uint64_t seed) {
  SplitMix64 random(seed);
  const std::string config_json = random_config(architecture, random);
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
  const auto uneven = run(folder.path(), 3, DType::kF32, prompt, 4, {3, 1, 2});
  EXPECT_LE(distance(uneven.prompt_logits, whole.prompt_logits), kTolerance) << "shares";
  for (const int world : {2, 8}) {
    if (!make_partition(*config, world)->aligned) continue;
    const auto one = run(folder.path(), 1, DType::kBF16, prompt, 9);
    EXPECT_TRUE(run(folder.path(), world, DType::kBF16, prompt, 2).prompt_logits == one.prompt_logits)
        << "other bits in bf16 at world " << world;
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

/// The value of the nearest half towards zero; zero for what is too small to be a normal one.
float to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = bits >> 23 & 0xff;
  bits = exponent < 113 ? bits & 0x80000000u : bits & 0xffffe000u;
  return std::bit_cast<float>(bits);
}

std::string half_bytes(const std::string& floats) {
  std::string out;
  for (size_t at = 0; at < floats.size(); at += 4) {
    uint32_t bits = 0;
    std::memcpy(&bits, floats.data() + at, 4);
    const uint32_t exponent = bits >> 23 & 0xff;
    const auto half = static_cast<uint16_t>((bits >> 16 & 0x8000) | (exponent == 0 ? 0 : (exponent - 112) << 10) |
                                            (bits >> 13 & 0x3ff));
    out.append(reinterpret_cast<const char*>(&half), 2);
  }
  return out;
}

TEST_P(OddShapes, HalvesAndBfloat16AreReadExactly) {
  SplitMix64 random(7);
  const std::string config_json = random_config(GetParam(), random);
  const auto config = parse_model_config(config_json);
  auto halves = random_tensors(make_model_plan(*config).value(), 7);
  auto rounded = halves;
  for (size_t i = 0; i < halves.size(); ++i) {
    std::vector<float> values(halves[i].bytes.size() / 4);
    std::memcpy(values.data(), halves[i].bytes.data(), halves[i].bytes.size());
    std::transform(values.begin(), values.end(), values.begin(), to_half);
    rounded[i].bytes = encode_floats(values, DType::kF32);
    halves[i].bytes = half_bytes(rounded[i].bytes);
    halves[i].dtype = DType::kF16;
  }
  const std::vector<int32_t> prompt(5, static_cast<int32_t>(config->vocab_size - 1));
  const auto logits = [&](const std::vector<TensorToWrite>& tensors, DType dtype) {
    const ScratchDir folder;
    write_checkpoint(folder.path(), config_json, tensors);
    return run(folder.path(), 2, dtype, prompt, 5).prompt_logits;
  };
  EXPECT_EQ(logits(halves, DType::kF32), logits(rounded, DType::kF32));
  EXPECT_EQ(logits(halves, DType::kBF16), logits(rounded, DType::kBF16));
  const auto bf16 = random_tensors(make_model_plan(*config).value(), 7, DType::kBF16);
  auto widened = bf16;
  for (auto& tensor : widened) {
    std::string wide;
    for (size_t at = 0; at < tensor.bytes.size(); at += 2)
      wide.append(2, '\0').append(tensor.bytes, at, 2);
    tensor.bytes = wide;
    tensor.dtype = DType::kF32;
  }
  EXPECT_EQ(logits(bf16, DType::kF32), logits(widened, DType::kF32));
  EXPECT_EQ(logits(bf16, DType::kBF16), logits(widened, DType::kBF16));
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
