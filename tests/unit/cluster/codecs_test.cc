// Codecs of hidden sums through coordinator, leader and ranks: what they cost in perplexity, and that the contract
// holds with them: a token's bits depend on the tokens before it and not on its company.
#include <cmath>
#include <map>

#include "shard_server/collectives/codec.h"
#include "tests/unit/cluster/cluster_fixture.h"

namespace krait::test {
namespace {

constexpr size_t kPassages = 6;
constexpr size_t kPassageTokens = 400;

/// The beginnings of the held-out passages, each after token 0, which begins every text of the demo model.
std::vector<std::vector<int32_t>> held_out_prompts(const tokenizer::Tokenizer& tokenizer) {
  const std::string text = read_file(golden_path("demo_model/held_out.txt"));
  constexpr std::string_view kEnd = "<|endoftext|>";
  std::vector<std::vector<int32_t>> prompts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(kEnd, begin), text.size());
    std::vector<int32_t> ids = tokenizer.encode(text.substr(begin, end - begin), {}).value();
    ids.insert(ids.begin(), 0);
    ids.resize(std::min(ids.size(), kPassageTokens));
    prompts.push_back(std::move(ids));
    begin = end + kEnd.size();
  }
  return prompts;
}

double perplexity(int world, const std::string& codec) {
  LoopbackClusterOptions options = demo_options(world);
  options.codec = codec;
  options.slots = kPassages;
  LoopbackCluster cluster(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const auto& prompt : held_out_prompts(cluster.tokenizer())) {
    auto spec = one_sequence(prompt, 1);
    spec.shared.sampling.prompt_logprobs = true;
    sinks.push_back(cluster.submit(spec).second);
  }
  EXPECT_EQ(sinks.size(), kPassages);
  cluster.pump_until_idle();
  double sum = 0;
  size_t count = 0;
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->finished());
    for (const auto& token : sink->sequence().prompt_logprobs)
      sum -= double{token.logprob};
    count += sink->sequence().prompt_logprobs.size();
  }
  EXPECT_EQ(count, kPassages * (kPassageTokens - 1));
  return std::exp(sum / static_cast<double>(count));
}

class CodecQuality : public testing::TestWithParam<int> {};

// Bounds: what bf16 and int8 may cost at most; int4 about twice what it was when this was written.
TEST_P(CodecQuality, PerplexityOfTheHeldOutTextChangesLittle) {
  const std::map<std::string_view, double> bounds = {
      {"exact", 0}, {"bf16", 0.001}, {"int8", 0.003}, {"int8-rotated", 0.003}, {"int4", 0.03}, {"int4-rotated", 0.03}};
  const double whole = perplexity(1, "exact");
  for (const collectives::CodecEntry& codec : collectives::all_codecs()) {
    ASSERT_TRUE(bounds.contains(codec.name)) << "a new codec needs its bound: " << codec.name;
    const double change = perplexity(GetParam(), std::string(codec.name)) / whole - 1;
    fmt::print("  {} ranks, {}: perplexity {:.4f} {:+.4f} %\n", GetParam(), codec.name, whole, change * 100);
    EXPECT_LE(std::abs(change), bounds.at(codec.name)) << codec.name;
    if (codec.codec != collectives::Codec::kFloat32) {
      EXPECT_NE(change, 0) << codec.name << " was not used";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, CodecQuality, testing::Values(2, 4));

// Mamba-2's sum carries a lane of the norm.
TEST(Codecs, ATokensBitsDoNotDependOnItsCompany) {
  const std::vector<std::string> models = {source_path("deploy/demo_model"), golden_path("models/mamba2")};
  for (const std::string& model : models) {
    for (const auto& [world, codec] : {std::pair{2, "int8-rotated"}, {3, "int4"}, {4, "bf16"}}) {
      LoopbackClusterOptions options;
      options.model_dir = model;
      options.world = world;
      options.codec = codec;
      options.slots = 6;
      options.with_tokenizer = false;
      const auto run = [&](size_t company) {
        LoopbackCluster cluster(options);
        SplitMix64 random(9);
        std::vector<std::shared_ptr<RecordingSink>> sinks;
        for (size_t i = 0; i <= company; ++i) {
          std::vector<int32_t> prompt;
          for (size_t t = 0; t < 20 + 13 * i; ++t)
            prompt.push_back(static_cast<int32_t>(1 + random.below(90)));
          auto spec = one_sequence(prompt, 6);
          spec.shared.sampling.prompt_logprobs = true;
          sinks.push_back(cluster.submit(spec).second);
        }
        cluster.pump_until_idle();
        EXPECT_TRUE(sinks[0]->finished());
        return answer_of(sinks[0]->sequence());
      };
      EXPECT_EQ(run(0), run(4)) << model << " on " << world << " ranks, " << codec;
    }
  }
}

}  // namespace
}  // namespace krait::test
