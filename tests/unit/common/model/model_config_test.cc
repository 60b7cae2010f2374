#include "common/model/model_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/limits.h"
#include "tests/support/golden.h"

namespace krait {
namespace {

/// A small config with further fields; a field given here replaces the default one.
std::string config_with(const std::map<std::string, std::string>& fields) {
  std::map<std::string, std::string> all{{"model_type", "\"mamba\""}, {"vocab_size", "50280"}, {"hidden_size", "768"},
                                         {"num_hidden_layers", "24"}, {"state_size", "16"},    {"eos_token_id", "0"}};
  for (const auto& [name, value] : fields)
    all[name] = value;
  std::string text;
  for (const auto& [name, value] : all) {
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", name, value);
  }
  return "{" + text + "}";
}

ModelConfig parsed(const std::map<std::string, std::string>& fields,
                   std::optional<std::string_view> generation = std::nullopt) {
  auto config = parse_model_config(config_with(fields), generation);
  EXPECT_TRUE(config.ok()) << to_string(config.error());
  return config.ok() ? *config : ModelConfig{};
}

TEST(ModelConfig, ReadsTheFixture) {
  const std::string folder = test::golden_path("models/mamba/");
  const auto config =
      parse_model_config(test::read_file(folder + "config.json"), test::read_file(folder + "generation_config.json"));
  ASSERT_TRUE(config.ok()) << to_string(config.error());
  const ModelConfig expected{
      .architecture = "mamba",
      .hidden_size = 64,
      .layers = 4,
      .vocab_size = 512,
      .norm_eps = 1e-5f,
      .tie_word_embeddings = true,
      .mixer = {.inner_size = 128,
                .state_size = 16,
                .conv_kernel = 4,
                .use_bias = false,
                .use_conv_bias = true,
                .dt_rank = 4},
      .units = {UnitConfig{.count = 128, .block = 16, .width = 1}, {}, {}, {}, {.count = 512, .block = 16}},
      .torch_dtype = "float32",
      .eos_ids = {2},
      .bos_id = 1};
  EXPECT_EQ(*config, expected);
}

TEST(ModelConfig, AbsentFieldsHaveTheirPublishedDefaults) {
  const ModelConfig config = parsed({});
  EXPECT_EQ(config.mixer.inner_size, 1536);
  EXPECT_EQ(config.mixer.dt_rank, 48);
  EXPECT_EQ(config.mixer.conv_kernel, 4);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.mixer.use_conv_bias);
  EXPECT_FALSE(config.mixer.use_bias);
  EXPECT_FALSE(config.bos_id.has_value());
  EXPECT_TRUE(config.unknown_fields.empty());
}

TEST(ModelConfig, BothSpellingsOfTheDtype) {
  EXPECT_EQ(parsed({{"dtype", "\"bfloat16\""}}).torch_dtype, "bfloat16");
  EXPECT_EQ(parsed({{"torch_dtype", "\"float16\""}}).torch_dtype, "float16");
  EXPECT_EQ(parsed({{"torch_dtype", "null"}}).torch_dtype, "");
}

TEST(ModelConfig, AutomaticRankIsASixteenthRoundedUp) {
  EXPECT_EQ(parsed({{"time_step_rank", "\"auto\""}, {"hidden_size", "100"}}).mixer.dt_rank, 7);
  EXPECT_EQ(parsed({{"time_step_rank", "5"}, {"hidden_size", "100"}}).mixer.dt_rank, 5);
}

TEST(ModelConfig, IntermediateSizeRulesOverExpand) {
  EXPECT_EQ(parsed({{"expand", "16"}, {"intermediate_size", "1000"}}).mixer.inner_size, 1000);
  EXPECT_EQ(parsed({{"expand", "3"}}).mixer.inner_size, 2304);
}

TEST(ModelConfig, EndIdsAreTheUnionOfBothFiles) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(parsed({{"eos_token_id", "7"}}).eos_ids, Ids{7});
  EXPECT_EQ(parsed({{"eos_token_id", "null"}}).eos_ids, Ids{});
  EXPECT_EQ(parsed({{"eos_token_id", ""}}, R"({"eos_token_id": [9, 3]})").eos_ids, (Ids{3, 9}));
  EXPECT_EQ(parsed({{"eos_token_id", "[5, 3]"}}, R"({"eos_token_id": [3, 11]})").eos_ids, (Ids{3, 5, 11}));
  EXPECT_EQ(parsed({{"eos_token_id", "7"}}, R"({"eos_token_id": null, "bos_token_id": 4})").bos_id, 4);
}

TEST(ModelConfig, NonFiniteNumbersOfUnusedFieldsDoNoHarm) {
  for (const char* value :
       {"Infinity", "-Infinity", "NaN", R"({"__float__": "Infinity"})", "1e999", "-1e999", "\"Infinity\""}) {
    const ModelConfig config = parsed({{"time_step_max", value}, {"_name_or_path", "\"a \\\" Infinity\""}});
    EXPECT_EQ(config.layers, 24) << value;
  }
}

TEST(ModelConfig, ShowsWhatTheFileSaid) {
  for (const auto& [value, shown] :
       std::map<std::string, std::string>{{"NaN", "is NaN,"},
                                          {"-Infinity", "is -Infinity,"},
                                          {"-1e999", "is -1e999,"},
                                          {"[1, [1e999]]", "is [1,[1e999]],"},
                                          {R"({"__float__": "NaN"})", R"(is {"__float__":"NaN"},)"},
                                          {R"("{\"__number__\":\"7\"}")", R"(__number__)"}}) {
    const auto config = parse_model_config(config_with({{"hidden_size", value}}));
    ASSERT_FALSE(config.ok()) << value;
    EXPECT_NE(config.error().message.find(shown), std::string::npos) << config.error().message;
  }
}

TEST(ModelConfig, UnknownFieldsAreListed) {
  EXPECT_EQ(parsed({{"novelty", "1"}, {"use_cache", "true"}}).unknown_fields, std::vector<std::string>{"novelty"});
}

TEST(ModelConfig, PublishedRemnantsOfTheOriginalConfigAreTaken) {
  EXPECT_EQ(parsed({{"d_model", "768"},
                    {"n_layer", "24"},
                    {"d_inner", "1536"},
                    {"ssm_cfg", "{}"},
                    {"rms_norm", "true"},
                    {"fused_add_norm", "true"},
                    {"pad_vocab_size_multiple", "8"}})
                .layers,
            24);
}

struct Refusal final {
  std::string field;
  std::string value;  // empty: absent
  Errc code = Errc::kCorrupt;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.field << " = " << refusal.value;
}

class ModelConfigRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ModelConfigRefusal, NamesTheField) {
  const auto config = parse_model_config(config_with({{GetParam().field, GetParam().value}}));
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().param, GetParam().field) << to_string(config.error());
  EXPECT_EQ(config.error().code, GetParam().code) << to_string(config.error());
  EXPECT_NE(config.error().message.find(GetParam().field), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, ModelConfigRefusal,
    ::testing::Values(Refusal{"vocab_size", ""}, Refusal{"vocab_size", "0"}, Refusal{"vocab_size", "4194305"},
                      Refusal{"vocab_size", "\"50280\""}, Refusal{"vocab_size", "true"}, Refusal{"vocab_size", "5e4"},
                      Refusal{"hidden_size", ""}, Refusal{"hidden_size", "-768"}, Refusal{"hidden_size", "131073"},
                      Refusal{"hidden_size", "18446744073709551615"}, Refusal{"hidden_size", "Infinity"},
                      Refusal{"hidden_size", R"({"__float__": "Infinity"})"}, Refusal{"hidden_size", "[768]"},
                      Refusal{"hidden_size", "1e999"}, Refusal{"hidden_size", "-Infinity"},
                      Refusal{"hidden_size", "NaN"}, Refusal{"hidden_size", "\"Infinity\""},
                      Refusal{"hidden_size", "\"nan\""}, Refusal{"hidden_size", std::string(400, '9')},
                      Refusal{"hidden_size", "768.0"}, Refusal{"hidden_size", "18446744073709551616"},
                      Refusal{"hidden_size", "-9223372036854775809"}, Refusal{"hidden_size", "{}"},
                      Refusal{"num_hidden_layers", ""}, Refusal{"num_hidden_layers", "0"},
                      Refusal{"num_hidden_layers", "1025"}, Refusal{"state_size", "0"}, Refusal{"state_size", "1025"},
                      Refusal{"conv_kernel", "1"}, Refusal{"conv_kernel", "0"}, Refusal{"conv_kernel", "9"},
                      Refusal{"expand", "0"}, Refusal{"expand", "131072"}, Refusal{"intermediate_size", "0"},
                      Refusal{"intermediate_size", "131073"}, Refusal{"time_step_rank", "0"},
                      Refusal{"time_step_rank", "\"automatic\""}, Refusal{"d_model", "769"}, Refusal{"n_layer", "1"},
                      Refusal{"d_inner", "\"1536\""}));

INSTANTIATE_TEST_SUITE_P(
    Values, ModelConfigRefusal,
    ::testing::Values(
        Refusal{"model_type", "", Errc::kUnsupported}, Refusal{"model_type", "7"},
        Refusal{"model_type", "\"llama\"", Errc::kUnsupported}, Refusal{"hidden_act", "\"gelu\"", Errc::kUnsupported},
        Refusal{"hidden_act", "1"}, Refusal{"residual_in_fp32", "false", Errc::kUnsupported},
        Refusal{"residual_in_fp32", "0"}, Refusal{"rms_norm", "false", Errc::kUnsupported},
        Refusal{"ssm_cfg", R"({"layer": "Mamba2"})", Errc::kUnsupported},
        Refusal{"attn_layer_idx", "[3]", Errc::kUnsupported},
        Refusal{"quantization_config", R"({"bits": 4})", Errc::kUnsupported}, Refusal{"layer_norm_epsilon", "NaN"},
        Refusal{"layer_norm_epsilon", "1e999"}, Refusal{"layer_norm_epsilon", "\"NaN\""},
        Refusal{"layer_norm_epsilon", "-Infinity"}, Refusal{"layer_norm_epsilon", R"({"__float__": "NaN"})"},
        Refusal{"layer_norm_epsilon", "2"}, Refusal{"eos_token_id", "Infinity"}, Refusal{"eos_token_id", "[1e999]"},
        Refusal{"eos_token_id", "\"NaN\""}, Refusal{"eos_token_id", "[[0]]"}, Refusal{"bos_token_id", "[-1]"},
        Refusal{"model_type", "Infinity"}, Refusal{"layer_norm_epsilon", "-1e-5"},
        Refusal{"layer_norm_epsilon", "\"1e-5\""}, Refusal{"tie_word_embeddings", "\"yes\""}, Refusal{"use_bias", "1"},
        Refusal{"eos_token_id", "50280"}, Refusal{"eos_token_id", "-1"}, Refusal{"eos_token_id", "[0, \"a\"]"},
        Refusal{"eos_token_id", "0.5"}, Refusal{"eos_token_id", "18446744073709551615"},
        Refusal{"bos_token_id", "true"}, Refusal{"torch_dtype", "16"}));

void expect_not_json(const std::string& text) {
  const auto config = parse_model_config(text);
  ASSERT_FALSE(config.ok()) << text.substr(0, 60);
  EXPECT_EQ(config.error().code, Errc::kCorrupt);
  EXPECT_EQ(config.error().param, "config.json");
}

TEST(ModelConfig, BytesThatAreNoConfigAreRefused) {
  const std::string sound = config_with({});
  expect_not_json("");
  expect_not_json("[]");
  expect_not_json("7");
  expect_not_json(sound + "x");
  expect_not_json(sound.substr(0, sound.size() - 1));
  expect_not_json("{\"model_type\": \"mamba\xff\"}");
  expect_not_json(R"({"a": inf})");
  expect_not_json(R"({"a": +Infinity})");
  expect_not_json(sound + std::string("\0", 1));
  expect_not_json(sound + std::string("\0x", 2));
  expect_not_json(R"({"a": NaNa})");
  expect_not_json(R"({"a": "unterminated \)");
  expect_not_json(R"({"hidden_size": 1, "hidden_size": 2})");
  expect_not_json(R"({"a": {"b": 1, "b": 1}})");
  expect_not_json(std::string(static_cast<size_t>(limits::kMaxConfigBytes) + 1, ' '));
}

TEST(ModelConfig, WhatIsQuotedIsShort) {
  const std::string large(1'000'000, 'x');
  for (const std::string& text :
       {config_with({{"hidden_size", "\"" + large + "\""}}), config_with({{"model_type", "\"" + large + "\""}}),
        config_with({{large, "1, \"" + large + "\": 2"}}), "{\"a\": \"" + large, "{\"a\": " + large}) {
    const auto config = parse_model_config(text);
    ASSERT_FALSE(config.ok());
    EXPECT_LT(config.error().message.size(), 500u);
  }
}

TEST(ModelConfig, DepthIsBounded) {
  const auto nested = [](int depth) {
    const auto times = static_cast<size_t>(depth);
    return config_with({{"auto_map", std::string(times, '[') + std::string(times, ']')}});
  };
  EXPECT_TRUE(parse_model_config(nested(limits::kMaxJsonDepth - 1)).ok());
  expect_not_json(nested(limits::kMaxJsonDepth));
  expect_not_json(std::string(1'000'000, '['));
}

TEST(ModelConfig, ABadGenerationConfigIsNamed) {
  const auto config = parse_model_config(config_with({}), "{");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().param, "generation_config.json");
  for (const char* bad : {R"({"eos_token_id": [50280]})", R"({"eos_token_id": Infinity})", R"({"bos_token_id": "a"})",
                          R"({"eos_token_id": -1})", R"({"eos_token_id": 1, "eos_token_id": 2})"}) {
    const auto ids = parse_model_config(config_with({}), bad);
    ASSERT_FALSE(ids.ok()) << bad;
    EXPECT_NE(ids.error().message.find("generation_config.json"), std::string::npos) << ids.error().message;
    EXPECT_NE(ids.error().message.find("os_token_id"), std::string::npos) << ids.error().message;
  }
}

}  // namespace
}  // namespace krait
