// What each family's config may say, in both generations of spellings, and what is refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "common/model/model_config.h"
#include "common/model/model_plan.h"

namespace krait {
namespace {

using Fields = std::map<std::string, std::string>;

Result<ModelConfig> parse(Fields base, const Fields& more) {
  for (const auto& [name, value] : more)
    base[name] = value;
  std::string text;
  for (const auto& [name, value] : base) {
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", name, value);
  }
  return parse_model_config("{" + text + "}");
}

ModelConfig parsed(const Fields& base, const Fields& more = {}) {
  const auto config = parse(base, more);
  EXPECT_TRUE(config.ok()) << to_string(config.error());
  return config.ok() ? *config : ModelConfig{};
}

std::string refused(const Fields& base, const Fields& more) {
  const auto config = parse(base, more);
  return config.ok() ? "nothing" : config.error().param;
}

const Fields kMamba2{{"model_type", "\"mamba2\""}, {"vocab_size", "100"}, {"hidden_size", "64"},     {"num_heads", "8"},
                     {"head_dim", "16"},           {"n_groups", "2"},     {"num_hidden_layers", "2"}};
const Fields kZamba{{"model_type", "\"zamba\""},
                    {"vocab_size", "100"},
                    {"hidden_size", "64"},
                    {"num_attention_heads", "4"},
                    {"num_hidden_layers", "20"}};
// A config of 2024, as the 7B model had it.
const Fields kOldZamba2{{"model_type", "\"zamba2\""},
                        {"vocab_size", "32000"},
                        {"hidden_size", "64"},
                        {"num_hidden_layers", "3"},
                        {"layers_block_type", R"(["m", "g", "m"])"},
                        {"num_attention_heads", "4"},
                        {"num_key_value_heads", "4"},
                        {"conv_dimension", "4"},
                        {"expansion_factor", "2"},
                        {"state_size", "8"},
                        {"mamba_headdim", "16"},
                        {"mamba_ngroups", "2"},
                        {"ffn_hidden_size", "96"},
                        {"lora_rank", "6"},
                        {"num_mem_blocks", "1"},
                        {"rope_theta", "10000"},
                        {"use_mem_rope", "true"},
                        {"use_shared_attention_lora", "false"},
                        {"use_shared_block_lora", "true"},
                        {"ft_lora", "false"},
                        {"gated_linear_unit", "true"},
                        {"add_bias_linear", "false"},
                        {"sliding_window", "null"}};

TEST(Mamba2Config, SizesAndLimits) {
  const ModelConfig config = parsed(kMamba2, {{"time_step_limit", "[0.01, Infinity]"}});
  EXPECT_EQ(config.mixer.inner_size, 128);
  EXPECT_EQ(config.mixer.groups, 2);
  EXPECT_FLOAT_EQ(config.mixer.dt_min, 0.01f);
  EXPECT_TRUE(std::isinf(config.mixer.dt_max));
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(parsed(kMamba2, {{"time_step_limit", "[0, {\"__float__\": \"Infinity\"}]"}}).mixer.dt_min, 0);
  EXPECT_EQ(parsed(kMamba2, {{"time_step_limit", "[0, 2.5]"}}).mixer.dt_max, 2.5f);
}

TEST(Mamba2Config, WhatCannotBeHonouredIsNamed) {
  EXPECT_EQ(refused(kMamba2, {{"expand", "3"}}), "expand");
  EXPECT_EQ(refused(kMamba2, {{"n_groups", "3"}}), "n_groups");
  EXPECT_EQ(refused(kMamba2, {{"hidden_act", "\"gelu\""}}), "hidden_act");
  EXPECT_EQ(refused(kMamba2, {{"norm_before_gate", "true"}}), "norm_before_gate");
  for (const char* limit : {"[1, 0]", "[-1, 2]", "[0]", "0.5", "[0, \"x\"]", "[NaN, 1]", "[0, -Infinity]"})
    EXPECT_EQ(refused(kMamba2, {{"time_step_limit", limit}}), "time_step_limit") << limit;
  EXPECT_EQ(refused(kMamba2, {{"head_dim", "131072"}}), "num_heads");
}

TEST(FalconMambaConfig, ThePublishedOneContradictsItself) {
  const ModelConfig config = parsed({{"model_type", "\"falcon_mamba\""},
                                     {"vocab_size", "65024"},
                                     {"hidden_size", "4096"},
                                     {"num_hidden_layers", "64"},
                                     {"expand", "16"},
                                     {"intermediate_size", "8192"},
                                     {"time_step_rank", "256"},
                                     {"tie_word_embeddings", "false"},
                                     {"eos_token_id", "11"}});
  EXPECT_EQ(config.mixer.inner_size, 8192);
  ASSERT_TRUE(config.mixer.dt_b_c_norm_eps.has_value());
  EXPECT_FLOAT_EQ(*config.mixer.dt_b_c_norm_eps, 1e-6f);
}

TEST(ZambaConfig, LayersByPeriodOrByName) {
  EXPECT_EQ(parsed(kZamba).shared.layers, (std::vector<int32_t>{2, 7, 13, 19}));
  EXPECT_EQ(parsed(kZamba, {{"attn_layer_period", "4"}, {"attn_layer_offset", "1"}}).shared.layers,
            (std::vector<int32_t>{2, 4, 8, 12, 16}));
  const Fields three{{"num_hidden_layers", "3"}};
  Fields named = three;
  named["layers_block_type"] = R"(["mamba", "hybrid", "linear_attention"])";
  EXPECT_EQ(parsed(kZamba, named).shared.layers, (std::vector<int32_t>{1}));
  named["layers_block_type"] = R"(["mamba", "attention", "mamba"])";
  EXPECT_EQ(refused(kZamba, named), "layers_block_type");
  named["layers_block_type"] = R"(["mamba"])";
  EXPECT_EQ(refused(kZamba, named), "layers_block_type");
}

TEST(ZambaConfig, AttentionGoesOverTwiceTheWidth) {
  const ModelConfig config = parsed(kZamba, {{"num_key_value_heads", "2"}});
  EXPECT_EQ(config.shared.head_dim, 32);
  EXPECT_FLOAT_EQ(config.shared.score_scale, 0.25f);
  EXPECT_FALSE(config.shared.rope_theta.has_value());
  EXPECT_EQ(refused(kZamba, {{"num_key_value_heads", "3"}}), "num_key_value_heads");
  EXPECT_EQ(refused(kZamba, {{"attention_hidden_size", "64"}}), "attention_hidden_size");
  EXPECT_EQ(refused(kZamba, {{"hidden_act", "\"gelu_new\""}}), "hidden_act");
  EXPECT_EQ(refused(kZamba, {{"n_mamba_heads", "3"}}), "n_mamba_heads");
}

TEST(Zamba2Config, BothGenerationsOfSpellings) {
  const ModelConfig old = parsed(kOldZamba2);
  EXPECT_TRUE(old.unknown_fields.empty()) << old.unknown_fields.front();
  const ModelConfig now = parsed({{"model_type", "\"zamba2\""},
                                  {"vocab_size", "32000"},
                                  {"hidden_size", "64"},
                                  {"num_hidden_layers", "3"},
                                  {"layers_block_type", R"(["linear_attention", "hybrid", "linear_attention"])"},
                                  {"num_attention_heads", "4"},
                                  {"mamba_d_conv", "4"},
                                  {"mamba_expand", "2"},
                                  {"mamba_d_state", "8"},
                                  {"n_mamba_heads", "8"},
                                  {"mamba_ngroups", "2"},
                                  {"intermediate_size", "96"},
                                  {"adapter_rank", "6"},
                                  {"rope_parameters", R"({"rope_theta": 10000.0, "rope_type": "default"})"},
                                  {"use_mem_rope", "true"}});
  EXPECT_EQ(old, now);
  EXPECT_EQ(now.mixer.heads, 8);
  EXPECT_FLOAT_EQ(now.mixer.dt_min, 1e-3f);
  EXPECT_TRUE(now.shared.mlp_adapters);
}

TEST(Zamba2Plan, CopiesOfASharedBlockAreHarmlessAndAdaptersAreItsOwn) {
  const auto plan = make_model_plan(
      parsed(kOldZamba2,
             {{"num_hidden_layers", "4"}, {"layers_block_type", R"(["g", "g", "m", "g"])"}, {"num_mem_blocks", "2"}}));
  ASSERT_TRUE(plan.ok());
  const auto harmless = [&](const std::string& name) {
    const auto& names = plan->harmless_tensors;
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string copy = "model.layers.3.shared_transformer.";
  EXPECT_TRUE(harmless(copy + "feed_forward.down_proj.weight"));
  EXPECT_TRUE(harmless(copy + "feed_forward.gate_up_proj_adapter_list.0.1.weight"));
  EXPECT_TRUE(harmless(copy + "feed_forward.gate_up_proj_adapter_list.2.0.weight"));
  EXPECT_FALSE(harmless(copy + "feed_forward.gate_up_proj_adapter_list.1.0.weight")) << "the other block's";
  for (const BlockPlan& block : plan->blocks) {
    for (const TensorSpec& spec : block.tensors) {
      const bool of_the_block = spec.name.find("shared_transformer") != std::string::npos;
      EXPECT_EQ(spec.shared, of_the_block && spec.role.find("adapter") == std::string::npos) << spec.name;
    }
  }
}

TEST(Zamba2Config, TheNewestSpellingsToo) {
  Fields base = kOldZamba2;
  base["layer_types"] = base["layers_block_type"];
  base.erase("layers_block_type");
  EXPECT_EQ(parsed(base, {{"head_dim", "32"}}), parsed(kOldZamba2));
  EXPECT_EQ(refused(base, {{"layer_types", R"(["m", "x", "m"])"}}), "layer_types");
  EXPECT_EQ(parsed(kZamba, {{"head_dim", "16"}}).shared.head_dim, 16);
}

TEST(Zamba2Config, AdaptersOfTheMlpAreThereUnlessTheAuthorsOwnSwitchSaysNo) {
  Fields base = kOldZamba2;
  base.erase("use_shared_block_lora");
  EXPECT_TRUE(parsed(base, {{"use_shared_mlp_adapter", "false"}}).shared.mlp_adapters);
  EXPECT_FALSE(parsed(base, {{"use_shared_block_lora", "false"}}).shared.mlp_adapters);
}

TEST(Zamba2Config, WhatCannotBeHonouredIsNamed) {
  const Fields adapters{{"use_shared_attention_lora", "true"}};
  EXPECT_TRUE(parsed(kOldZamba2, adapters).shared.attention_adapters);
  for (const char* field : {"num_key_value_heads", "attention_head_dim"}) {
    Fields less = adapters;
    less[field] = "2";
    EXPECT_EQ(refused(kOldZamba2, less), field);
  }
  EXPECT_EQ(refused(kOldZamba2, {{"use_long_context", "true"}}), "use_long_context");
  EXPECT_EQ(refused(kOldZamba2, {{"add_bias_linear", "true"}}), "add_bias_linear");
  EXPECT_EQ(refused(kOldZamba2, {{"gated_linear_unit", "false"}}), "gated_linear_unit");
  EXPECT_EQ(refused(kOldZamba2, {{"rope_scaling", R"({"type": "linear", "factor": 2})"}}), "rope_scaling");
  EXPECT_EQ(refused(kOldZamba2, {{"rope_parameters", R"({"rope_type": "yarn"})"}}), "rope_parameters");
  EXPECT_EQ(refused(kOldZamba2, {{"rope_parameters", R"({"factor": 2})"}}), "rope_parameters");
  EXPECT_EQ(refused(kOldZamba2, {{"layers_block_type", ""}}), "layers_block_type");
  EXPECT_EQ(refused(kOldZamba2, {{"mamba_headdim", "24"}}), "n_mamba_heads");
  EXPECT_EQ(refused(kOldZamba2, {{"num_mem_blocks", "0"}}), "num_mem_blocks");
  EXPECT_EQ(refused(kOldZamba2, {{"ft_lora", "true"}}), "ft_lora");
  EXPECT_EQ(refused(kOldZamba2, {{"sliding_window", "512"}}), "sliding_window");
  EXPECT_EQ(refused(kOldZamba2, {{"num_query_groups", "2"}}), "num_query_groups");
  EXPECT_EQ(refused(kOldZamba2, {{"hybrid_layer_ids", "[0]"}}), "hybrid_layer_ids");
  EXPECT_EQ(refused(kOldZamba2, {{"attention_head_dim", "31"}}), "attention_head_dim");
  EXPECT_EQ(refused(kZamba, {{"n_mamba_heads", "257"}}), "n_mamba_heads");
}

}  // namespace
}  // namespace krait
