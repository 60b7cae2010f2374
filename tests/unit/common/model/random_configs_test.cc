// The generator of random models leaves no option of any family's config out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "common/model/architecture.h"
#include "common/model/partition.h"
#include "tests/support/random_model.h"

namespace krait::test {
namespace {

using Facts = std::set<std::string>;

void add(Facts& facts, bool holds, const std::string& what) {
  facts.insert(holds ? what : "not " + what);
}

void add_mixer(Facts& facts, const MixerConfig& mixer) {
  add(facts, mixer.use_bias, "bias");
  add(facts, mixer.use_conv_bias, "conv bias");
  add(facts, mixer.state_size > 20, "large state");
  add(facts, mixer.heads > 2, "more than two heads");
  add(facts, mixer.groups > 1, "groups");
  add(facts, mixer.groups < mixer.heads, "heads share groups");
  add(facts, mixer.dt_min > 0, "dt from below");
  add(facts, std::isfinite(mixer.dt_max), "dt from above");
  facts.insert(fmt::format("state of {}", mixer.state_size));
  facts.insert(fmt::format("kernel of {}", mixer.conv_kernel));
}

void add_shared(Facts& facts, const ModelConfig& config) {
  const SharedTransformerConfig& shared = config.shared;
  add(facts, shared.layers.size() > 1, "several hybrid layers");
  add(facts, shared.layers[0] == 0, "hybrid from the first layer");
  add(facts, static_cast<int64_t>(shared.layers.size()) > shared.blocks, "a block used twice");
  add(facts, static_cast<int64_t>(shared.layers.size()) < shared.blocks, "more blocks than layers");
  add(facts, shared.kv_heads < shared.heads, "grouped queries");
  add(facts, shared.heads * shared.head_dim != 2 * config.hidden_size, "another head_dim");
  add(facts, shared.rope_theta.has_value(), "rotary");
  add(facts, shared.mlp_adapters, "MLP adapters");
  add(facts, shared.attention_adapters, "attention adapters");
}

Facts facts_of(std::string_view architecture) {
  Facts facts;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SplitMix64 random(seed);
    const std::string text = random_config(architecture, random);
    const auto config = parse_model_config(text);
    if (!config.ok()) {
      ADD_FAILURE() << text << ": " << to_string(config.error());
      continue;
    }
    EXPECT_TRUE(config->unknown_fields.empty()) << config->unknown_fields[0];
    add(facts, config->tie_word_embeddings, "tied");
    add(facts, config->vocab_size % 2 == 0, "even vocabulary");
    for (const int world : {2, 4, 8})
      add(facts, make_partition(*config, world)->aligned, fmt::format("aligned at {}", world));
    add_mixer(facts, config->mixer);
    if (!config->shared.layers.empty()) add_shared(facts, *config);
  }
  return facts;
}

void expect_both(const Facts& facts, std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options) {
    EXPECT_TRUE(facts.contains(std::string(option))) << option;
    EXPECT_TRUE(facts.contains(fmt::format("not {}", option))) << option;
  }
}

TEST(RandomConfigs, DrawEveryOptionOfEveryFamily) {
  for (const Architecture* architecture : all_architectures()) {
    SCOPED_TRACE(architecture->name);
    const Facts facts = facts_of(architecture->name);
    expect_both(facts, {"tied", "even vocabulary", "aligned at 2", "aligned at 4", "aligned at 8", "large state"});
    for (const int kernel : {2, 3, 4})
      EXPECT_TRUE(facts.contains(fmt::format("kernel of {}", kernel)));
    for (const int size : {8, 16, 32, 64, 128, 256})
      EXPECT_TRUE(facts.contains(fmt::format("state of {}", size)));
    const std::string_view name = architecture->name;
    // Of Zamba2 the loader takes one kind only, and GGUF knows the bias of the convolution alone.
    if (name != "zamba2" && name != "gguf") expect_both(facts, {"bias", "conv bias"});
    if (name == "mamba2") expect_both(facts, {"dt from below", "dt from above"});
    if (name == "mamba2" || name == "zamba2" || name == "state_spaces" || name == "gguf")
      expect_both(facts, {"groups"});
    if (name == "mamba2" || name == "zamba2") expect_both(facts, {"heads share groups"});
    if (name.starts_with("zamba")) {
      expect_both(facts, {"more than two heads", "several hybrid layers", "hybrid from the first layer",
                          "a block used twice", "grouped queries", "another head_dim"});
    }
    if (name == "zamba2")
      expect_both(facts, {"rotary", "MLP adapters", "attention adapters", "more blocks than layers"});
  }
}

}  // namespace
}  // namespace krait::test
