// The exactness contract inside a group: the bits of a row depend on the tokens before it and on nothing else.
#include <gtest/gtest.h>

#include "common/base/rng.h"
#include "tests/support/cluster/among_others.h"
#include "tests/support/draws.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

std::vector<int32_t> random_tokens(SplitMix64& random, size_t count, uint64_t vocab) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random.below(vocab)));
  return tokens;
}

wire::SamplingParams scored(uint64_t seed) {
  wire::SamplingParams sampling = scored_greedily();
  sampling.temperature = 1;
  sampling.seed = seed;
  sampling.logprobs = 2;
  return sampling;
}

struct Bits final {
  std::vector<std::vector<float>> prompt_logits;
  std::vector<std::vector<float>> decode_logits;
  std::vector<int32_t> tokens;
  shard::WholeState state;
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits_of(const EngineGroupOptions& options, int64_t chunk) {
  EngineGroup group(options);
  group.keep_logits();
  SplitMix64 random(11);
  const auto prompt = random_tokens(random, 83, static_cast<uint64_t>(group.config().vocab_size));
  auto run = run_sequence(group, 2, prompt, chunk, 12, scored(5));
  return {run.prompt_logits, run.decode_logits, run.tokens, run.after_prompt};
}

EngineGroupOptions options_of(const std::string& model, int world, int threads, DType dtype) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  options.threads = threads;
  options.dtype = dtype;
  return options;
}

class SameBits : public testing::TestWithParam<DType> {};

std::vector<std::string> every_family() {
  std::vector<std::string> models;
  for (const std::string& family : golden_families())
    models.push_back(golden_path("models/" + family));
  return models;
}

TEST_P(SameBits, AtEveryAlignedWorldSize) {
  auto models = every_family();
  models.push_back(source_path("deploy/demo_model"));
  for (const auto& model : models) {
    const Bits one = bits_of(options_of(model, 1, 1, GetParam()), 83);
    int compared = 0;
    for (const int world : {2, 4, 8}) {
      const auto config = Checkpoint::open(model).value()->config();
      if (!make_partition(config, world)->aligned) continue;  // four attention heads are not cut in eight
      EXPECT_TRUE(bits_of(options_of(model, world, 1, GetParam()), 20) == one) << model << ", world " << world;
      ++compared;
    }
    EXPECT_GE(compared, 2) << model;
  }
}

TEST_P(SameBits, WithAnyChunkingAndThreadsInEveryFamily) {
  for (const auto& model : every_family()) {
    const Bits one = bits_of(options_of(model, 1, 1, GetParam()), 83);
    for (const int64_t chunk : {1, 7}) {
      EXPECT_TRUE(bits_of(options_of(model, 1, 2, GetParam()), chunk) == one) << model << ", chunks of " << chunk;
    }
  }
}

TEST_P(SameBits, WithAnyChunkingAndThreads) {
  const auto model = golden_path("models/mamba");
  const Bits one = bits_of(options_of(model, 1, 1, GetParam()), 83);
  for (const int64_t chunk : {1, 2, 7, 40}) {
    EXPECT_TRUE(bits_of(options_of(model, 1, 2, GetParam()), chunk) == one) << "chunks of " << chunk;
  }
  EXPECT_TRUE(bits_of(options_of(model, 2, 2, GetParam()), 9) == one);
  const Bits three = bits_of(options_of(model, 3, 1, GetParam()), 83);
  EXPECT_TRUE(bits_of(options_of(model, 3, 2, GetParam()), 5) == three) << "an uneven partition keeps its own bits";
}

TEST_P(SameBits, InHalvesThatTakeTurns) {
  for (const auto& model : every_family()) {
    const Bits one = bits_of(options_of(model, 1, 1, GetParam()), 83);
    auto options = options_of(model, 2, 1, GetParam());
    options.overlap_rows = 2;
    for (const int64_t chunk : {83, 7})
      EXPECT_TRUE(bits_of(options, chunk) == one) << model << ", chunks of " << chunk;
    // Three ranks add in another order, and in two shots; four may share parts of a mixer.
    for (const int world : {3, 4}) {
      options.world = world;
      EXPECT_TRUE(bits_of(options, 83) == bits_of(options_of(model, world, 1, GetParam()), 83))
          << model << " " << world;
    }
  }
}

TEST_P(SameBits, OnEveryInstructionPath) {
  for (const auto& model : every_family()) {
    const Bits best = bits_of(options_of(model, 1, 1, GetParam()), 83);
    for (int path = 0; path < static_cast<int>(kernels::best_cpu_path()); ++path) {
      auto options = options_of(model, 1, 1, GetParam());
      options.path = static_cast<kernels::CpuPath>(path);
      EXPECT_TRUE(bits_of(options, 83) == best) << model << " " << kernels::cpu_path_name(options.path);
    }
  }
}

void check_among_others(const std::string& model, int world, DType dtype, int64_t overlap_rows) {
  EngineGroupOptions options = options_of(model, world, 1, dtype);
  options.slots = 32;
  SplitMix64 random(23);
  const auto prompt = random_tokens(random, 60, 512);
  EngineGroup group(options);
  group.keep_logits();
  const auto alone = run_sequence(group, 0, prompt, 60, 10, scored(5));
  options.overlap_rows = overlap_rows;
  EXPECT_TRUE(run_among_others(options, prompt, 10, scored(5)) == alone) << model << ", world " << world;
}

TEST_P(SameBits, AmongThirtyOneOthersThatComeAndGo) {
  for (const auto& model : every_family()) {
    check_among_others(model, 2, GetParam(), 0);
    check_among_others(model, 2, GetParam(), 3);
    for (const int world : {1, 4, 8}) {
      if (draws({.usual = 0, .sanitized = 0, .long_run = 1}) == 1) check_among_others(model, world, GetParam(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SameBits, testing::Values(DType::kF32, DType::kBF16, DType::kI8, DType::kI4),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(Contract, AChangedLaterTokenChangesNoEarlierLogits) {
  const auto options = options_of(golden_path("models/mamba"), 2, 1, DType::kF32);
  SplitMix64 random(3);
  auto prompt = random_tokens(random, 40, 512);
  const auto run = [&] {
    EngineGroup group(options);
    group.keep_logits();
    return run_sequence(group, 0, prompt, 40, 1, scored(1)).prompt_logits;
  };
  const auto before = run();
  prompt[30] = (prompt[30] + 1) % 512;
  const auto after = run();
  for (size_t t = 0; t < 30; ++t)
    EXPECT_EQ(before[t], after[t]) << t;
  EXPECT_NE(before[30], after[30]);
}

TEST(Contract, CandidatesAndWholeRowsSampleTheSameTokens) {
  // Asking for logprobs changes how ranks exchange a row, never which token is drawn.
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<std::vector<int32_t>> tokens;
    for (const int world : {1, 2, 3}) {
      for (const int32_t logprobs : {-1, 0}) {
        EngineGroup group(options_of(source_path("deploy/demo_model"), world, 1, DType::kBF16));
        auto sampling = scored(77);
        sampling.temperature = temperature;
        sampling.prompt_logprobs = false;
        sampling.logprobs = logprobs;
        if (world != 3) tokens.push_back(run_sequence(group, 0, {5, 9, 300}, 3, 40, sampling).tokens);
      }
    }
    for (const auto& other : tokens)
      EXPECT_EQ(other, tokens[0]);
  }
}

// With rounded sums P counts, and still nothing else does. Hybrids have sums in their shared transformers too.
TEST(SameBitsWithCodecs, HoweverThePromptIsCut) {
  for (const auto& model : every_family()) {
    for (const auto& [world, codec] :
         {std::pair{2, collectives::Codec::kInt8Rotated}, {3, collectives::Codec::kInt4}}) {
      EngineGroupOptions options = options_of(model, world, 1, DType::kF32);
      options.codecs = shard::SumCodecs(codec);
      const Bits whole = bits_of(options, 83);
      EXPECT_TRUE(whole == bits_of(options, 7)) << model << " on " << world << " ranks";
      options.codecs = {};
      EXPECT_FALSE(whole.prompt_logits == bits_of(options, 83).prompt_logits) << model << ": the codec was not used";
    }
  }
}

/// One codec after another, sum after sum.
shard::SumCodecs mixed_codecs(const std::string& model) {
  const auto checkpoint = Checkpoint::open(model).value();
  std::vector<collectives::Codec> codecs;
  for (size_t i = 0; i < shard::hidden_sums(checkpoint->plan()).size(); ++i)
    codecs.push_back(static_cast<collectives::Codec>(i % collectives::kCodecCount));
  return {checkpoint->plan(), codecs};
}

// step() compares the ranks' digests, which hold the residual stream.
TEST(SameBitsWithCodecs, InAPlanThatMixesThem) {
  for (const auto& model : every_family()) {
    for (const int world : {2, 3}) {
      EngineGroupOptions options = options_of(model, world, 1, DType::kF32);
      options.codecs = mixed_codecs(model);
      const Bits whole = bits_of(options, 83);
      EXPECT_TRUE(whole == bits_of(options, 83)) << model << ": another run on " << world << " ranks";
      EXPECT_TRUE(whole == bits_of(options, 7)) << model << " on " << world << " ranks";
      for (const collectives::CodecEntry& codec : collectives::all_codecs()) {
        options.codecs = shard::SumCodecs(codec.codec);
        EXPECT_FALSE(whole.prompt_logits == bits_of(options, 83).prompt_logits) << model << ": all are " << codec.name;
      }
    }
  }
}

TEST(SameBitsWithCodecs, APlanOfOneCodecIsThatCodec) {
  const std::string model = golden_path("models/zamba2");
  const auto checkpoint = Checkpoint::open(model).value();
  EngineGroupOptions options = options_of(model, 2, 1, DType::kF32);
  const size_t sums = shard::hidden_sums(checkpoint->plan()).size();
  options.codecs = shard::SumCodecs(checkpoint->plan(), std::vector(sums, collectives::Codec::kInt8));
  const Bits by_plan = bits_of(options, 20);
  const std::string id = EngineGroup(options).numerics_id();
  options.codecs = shard::SumCodecs(collectives::Codec::kInt8);
  EXPECT_TRUE(by_plan == bits_of(options, 20));
  EXPECT_EQ(id, EngineGroup(options).numerics_id());
}

TEST(SameBitsWithCodecs, FastFollowsTheSizeOfASum) {
  EngineGroupOptions options = options_of(golden_path("models/mamba"), 2, 1, DType::kF32);
  const int64_t row_bytes = Checkpoint::open(options.model_dir).value()->config().hidden_size * 4;
  const Bits exact = bits_of(options, 83);
  options.codecs = shard::SumCodecs(std::vector<collectives::SizeCodec>{{7 * row_bytes, collectives::Codec::kFloat32},
                                                                        {8 * row_bytes, collectives::Codec::kInt4}});
  EXPECT_TRUE(exact == bits_of(options, 7)) << "small sums are exact";
  EXPECT_FALSE(exact == bits_of(options, 8)) << "larger ones are not";
  EXPECT_NE(EngineGroup(options).numerics_id().find("-fastx2-"), std::string::npos);
}

TEST(SameBitsWithCodecs, APlanIsPartOfTheNumericsId) {
  const auto id_of = [](shard::SumCodecs codecs) {
    EngineGroupOptions options = options_of(source_path("deploy/demo_model"), 2, 1, DType::kF32);
    options.codecs = std::move(codecs);
    return EngineGroup(options).numerics_id();
  };
  const auto plan = Checkpoint::open(source_path("deploy/demo_model")).value()->plan();
  std::vector<collectives::Codec> codecs(shard::hidden_sums(plan).size(), collectives::Codec::kInt8);
  codecs.back() = collectives::Codec::kFloat32;
  const std::string last_exact = id_of({plan, codecs});
  std::swap(codecs.front(), codecs.back());
  EXPECT_NE(last_exact.find("-plan-"), std::string::npos) << last_exact;
  EXPECT_NE(id_of({plan, codecs}), last_exact) << "which layer has which codec counts";
}

TEST(SameBitsWithCodecs, CodecAndWorldArePartOfTheNumericsId) {
  const auto id_of = [](int world, collectives::Codec codec) {
    EngineGroupOptions options = options_of(source_path("deploy/demo_model"), world, 1, DType::kF32);
    options.codecs = shard::SumCodecs(codec);
    return EngineGroup(options).numerics_id();
  };
  const std::string exact = id_of(1, collectives::Codec::kFloat32);
  EXPECT_EQ(id_of(2, collectives::Codec::kFloat32), exact);
  EXPECT_EQ(id_of(1, collectives::Codec::kInt8), exact) << "one rank rounds nothing";
  EXPECT_NE(id_of(2, collectives::Codec::kInt8), exact);
  EXPECT_NE(id_of(2, collectives::Codec::kInt8), id_of(4, collectives::Codec::kInt8));
  EXPECT_NE(id_of(2, collectives::Codec::kInt8), id_of(2, collectives::Codec::kInt4));
}

}  // namespace
}  // namespace krait::test
