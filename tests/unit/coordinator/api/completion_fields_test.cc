// Every field of completion_fields.def with right values, wrong types and values out of range.
#include <map>

#include "common/base/limits.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {
namespace {

enum class Kind { kUsed, kHarmless, kRefused };

struct Field final {
  std::string name;
  Kind kind = Kind::kUsed;
  std::string type;     // of kUsed
  std::string neutral;  // of kRefused
};

const std::vector<Field>& all_fields() {
  static const std::vector<Field> fields = {
#define REQUIRED(name, type, least, most, help) {#name, Kind::kUsed, #type, ""},
#define USED(name, type, least, most, value, help) {#name, Kind::kUsed, #type, ""},
#define HARMLESS(name, help) {#name, Kind::kHarmless, "", ""},
#define REFUSED(name, neutral) {#name, Kind::kRefused, "", neutral},
#include "coordinator/api/completion_fields.def"
#undef REQUIRED
#undef USED
#undef HARMLESS
#undef REFUSED
  };
  return fields;
}

std::string with(const std::string& name, const std::string& value) {
  const std::string field = "\"" + name + "\":" + value;
  if (name == "prompt") return "{" + field + "}";
  if (name == "stream_options") return body_of("\"stream\":true," + field);
  return body_of(field);
}

/// Values that a type never takes.
const std::map<std::string, std::vector<std::string>>& wrong_types() {
  static const std::map<std::string, std::vector<std::string>> wrong = {
      {"kModel", {"1", "true", "[]", "{}", "[\"demo\"]"}},
      {"kBoolean", {"1", "0", "\"true\"", "\"\"", "[]", "{}", "[true]"}},
      {"kInteger",
       {"\"1\"", "1.5", "true", "[]", "{}", "[1]", "1e300", "9223372036854775808", "18446744073709551616",
        "-9223372036854775809", "\"NaN\""}},
      {"kNumber", {"\"1\"", "true", "[]", "{}", "[1]", "1e300", "-1e300", "\"NaN\"", "\"Infinity\""}},
      {"kSeed", {"\"1\"", "1.5", "true", "[]", "{}", "18446744073709551616", "-9223372036854775809", "1e300"}},
      {"kStringOrStrings", {"1", "true", "{}", "[1]", "[[]]", "[\"a\",null]", "[\"a\",[\"b\"]]"}},
      {"kTokenIds",
       {"1", "true", "{}", "\"a\"", "[\"1\"]", "[1.5]", "[-1]", "[null]", "[[1]]", "[4294967297]",
        "[18446744073709551617]"}},
      {"kPrompt", {"1", "true", "{}", "[true]", "[null]", "[{}]", "[[\"a\"]]", "[[[1]]]"}},
      {"kBias",
       {"1", "true", "[]", "\"a\"", "{\"x\":1}", "{\"1\":\"1\"}", "{\"1\":null}", "{\"1\":true}", "{\"-1\":1}",
        "{\"-0\":1}", "{\"05\":1}", "{\"1.0\":1}", "{\"\":1}", "{\" 1\":1}", "{\"+1\":1}", "{\"1\":101}",
        "{\"1\":-101}", "{\"4294967297\":1}", "{\"1\":1e300}"}},
      {"kStreamOptions", {"1", "true", "[]", "\"a\""}},
  };
  return wrong;
}

TEST(CompletionFields, EveryFieldRefusesWrongTypesByName) {
  for (const Field& field : all_fields()) {
    if (field.kind != Kind::kUsed) continue;
    ASSERT_TRUE(wrong_types().contains(field.type)) << field.type;
    for (const std::string& value : wrong_types().at(field.type)) {
      const std::string param = refused(with(field.name, value));
      EXPECT_EQ(param.substr(0, param.find_first_of("[.")), field.name) << value;
    }
  }
}

TEST(CompletionFields, NullIsTheDefaultOfEveryFieldButThePrompt) {
  std::string fields;
  for (const Field& field : all_fields()) {
    if (field.name != "prompt") fields += (fields.empty() ? "\"" : ",\"") + field.name + "\":null";
  }
  const auto request = read_ok(body_of(fields));
  const auto plain = read_ok(body_of(""));
  EXPECT_EQ(request.shared.max_tokens, 16u);
  EXPECT_EQ(request.n, 1u);
  EXPECT_EQ(request.model, "demo");
  EXPECT_FALSE(request.stream || request.echo || request.include_usage || request.return_token_ids);
  EXPECT_FALSE(request.logprobs.has_value());
  auto sampling = request.shared.sampling;
  sampling.seed = plain.shared.sampling.seed;
  EXPECT_EQ(sampling, plain.shared.sampling);
  EXPECT_EQ(sampling.temperature, 1.0f);
  EXPECT_EQ(sampling.stop_ids, std::vector<int32_t>{0});
  EXPECT_EQ(request.unknown_fields.count, 0u);
  EXPECT_EQ(refused(R"({"prompt":null})"), "prompt");
}

TEST(CompletionFields, HarmlessOnesTakeAnythingAndRefusedOnesOnlyWhatChangesNothing) {
  for (const Field& field : all_fields()) {
    if (field.kind == Kind::kHarmless) {
      for (const char* value : {"null", "1", "\"x\"", "{\"a\":[1]}", "[]", "false"})
        EXPECT_EQ(read_ok(with(field.name, value)).unknown_fields.count, 0u);
    }
    if (field.kind != Kind::kRefused) continue;
    for (const char* value : {"5", "\"x\"", "{\"a\":1}", "[1]", "\" \"", "\"false\""})
      EXPECT_EQ(refused(with(field.name, value)), field.name) << value;
    size_t at = 0;
    while (!field.neutral.empty() && at != std::string::npos) {
      const size_t end = field.neutral.find(' ', at);
      read_ok(with(field.name, field.neutral.substr(at, end - at)));
      at = end == std::string::npos ? end : end + 1;
    }
  }
  EXPECT_EQ(refused(with("suffix", "\"the end\"")), "suffix");
  EXPECT_EQ(refused(with("use_beam_search", "true")), "use_beam_search");
}

struct Range final {
  const char* name;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

TEST(CompletionFields, RangesIncludeTheirEnds) {
  const std::vector<Range> ranges = {
      {"max_tokens", {"1", "1048576", "5.0", "1e3"}, {"-1", "1048577", "0"}},
      {"min_tokens", {"0", "16"}, {"-1", "17", "1048577"}},
      {"temperature", {"0", "0.0", "1", "100", "1e-300"}, {"-0.01", "100.5"}},
      {"top_p", {"0.001", "1", "1.0"}, {"0", "-0.1", "1.0001", "1e-320"}},
      {"top_k", {"-1", "0", "40", "4194304"}, {"-2", "4194305"}},
      {"min_p", {"0", "1"}, {"-0.1", "1.1"}},
      {"n", {"1", "128"}, {"0", "-1", "129"}},
      {"logprobs", {"0", "20"}, {"-1", "21"}},
      {"presence_penalty", {"-2", "2"}, {"-2.1", "2.1"}},
      {"frequency_penalty", {"-2", "2"}, {"-2.1", "2.1"}},
      {"repetition_penalty", {"0.01", "1", "100"}, {"0", "-1", "100.1"}},
      {"seed", {"0", "-1", "18446744073709551615", "-9223372036854775808"}, {"18446744073709551616"}},
  };
  for (const Range& range : ranges) {
    for (const char* value : range.good)
      read_ok(with(range.name, value));
    for (const char* value : range.bad)
      EXPECT_EQ(refused(with(range.name, value)), range.name) << value;
  }
  EXPECT_EQ(read_completion_request(with("top_p", "0"), demo_info()).error().message,
            "'top_p' must be above 0, and at most 1");
}

TEST(CompletionFields, SeedsOfEvery64BitKind) {
  const auto seed = [](const char* value) { return read_ok(with("seed", value)).shared.sampling.seed; };
  EXPECT_EQ(seed("0"), 0u);
  EXPECT_EQ(seed("-1"), UINT64_MAX);
  EXPECT_EQ(seed("-9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(seed("9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(seed("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(seed("5.0"), 5u) << "JSON has one kind of number";
  EXPECT_NE(seed("null"), seed("null")) << "a missing seed is drawn";
}

TEST(CompletionFields, ValuesReachTheSamplingParameters) {
  const auto request = read_ok(body_of(
      R"("max_tokens":7,"min_tokens":3,"temperature":0.5,"top_p":0.25,"top_k":9,"min_p":0.125,"seed":77,)"
      R"("n":2,"best_of":2,"presence_penalty":-0.5,"frequency_penalty":1.5,"repetition_penalty":1.25,)"
      R"("logit_bias":{"5":-100,"17":2.5},"stop":["a","","bc"],"stop_token_ids":[9,3,9],"logprobs":4,"echo":true,)"
      R"("include_stop_str_in_output":true,"skip_special_tokens":false,"return_token_ids":true,"stream":true,)"
      R"("stream_options":{"include_usage":true,"include_obfuscation":false},"model":"demo")"));
  const auto& shared = request.shared;
  EXPECT_EQ(shared.max_tokens, 7u);
  EXPECT_EQ(shared.sampling.min_tokens, 3u);
  EXPECT_EQ(shared.sampling.temperature, 0.5f);
  EXPECT_EQ(shared.sampling.top_p, 0.25f);
  EXPECT_EQ(shared.sampling.top_k, 9);
  EXPECT_EQ(shared.sampling.min_p, 0.125f);
  EXPECT_EQ(shared.sampling.seed, 77u);
  EXPECT_EQ(shared.sampling.presence_penalty, -0.5f);
  EXPECT_EQ(shared.sampling.frequency_penalty, 1.5f);
  EXPECT_EQ(shared.sampling.repetition_penalty, 1.25f);
  ASSERT_EQ(shared.sampling.logit_bias.size(), 2u);
  for (const auto& bias : shared.sampling.logit_bias)
    EXPECT_EQ(bias.bias, bias.token == 5 ? -100.0f : bias.token == 17 ? 2.5f : NAN);
  EXPECT_EQ(shared.sampling.stop_ids, (std::vector<int32_t>{0, 3, 9})) << "sorted, with the model's own, each once";
  EXPECT_EQ(shared.stop->strings(), (std::vector<std::string>{"a", "bc"})) << "an empty one never matches";
  EXPECT_TRUE(shared.include_stop);
  EXPECT_FALSE(shared.skip_special_tokens);
  EXPECT_EQ(shared.sampling.logprobs, 4);
  EXPECT_TRUE(shared.sampling.prompt_logprobs);
  EXPECT_EQ(shared.sampling.vocab_limit, static_cast<uint32_t>(demo_tokenizer()->vocab_size()));
  EXPECT_TRUE(request.stream && request.include_usage && request.return_token_ids && request.echo);
  const auto spec = request.generation();
  ASSERT_EQ(spec.sequences(), 2u);
  EXPECT_EQ(spec.submit(1).sampling.choice, 1u);
  EXPECT_EQ(spec.submit(1).tokens, ids_of("Hello"));
}

TEST(CompletionFields, IgnoreEosLeavesOnlyTheRequestsStops) {
  EXPECT_TRUE(read_ok(body_of(R"("ignore_eos":true)")).shared.sampling.stop_ids.empty());
  EXPECT_EQ(read_ok(body_of(R"("ignore_eos":true,"stop_token_ids":[4])")).shared.sampling.stop_ids,
            std::vector<int32_t>{4});
}

TEST(CompletionFields, FormsOfStop) {
  const auto stops = [](const std::string& value) {
    const auto stop = read_ok(with("stop", value)).shared.stop;
    return stop == nullptr ? std::vector<std::string>() : stop->strings();
  };
  EXPECT_EQ(stops("\"x\""), std::vector<std::string>{"x"});
  EXPECT_EQ(stops("\"\""), std::vector<std::string>());
  EXPECT_EQ(stops("[]"), std::vector<std::string>());
  EXPECT_EQ(stops("\"\\u0000\""), std::vector<std::string>{std::string(1, '\0')});
  std::string many = "[\"a\"";
  for (int i = 1; i < limits::kMaxStopStrings; ++i)
    many += ",\"a\"";
  EXPECT_EQ(stops(many + "]").size(), static_cast<size_t>(limits::kMaxStopStrings));
  EXPECT_EQ(refused(with("stop", many + ",\"a\"]")), "stop");
  EXPECT_EQ(stops("\"" + std::string(limits::kMaxStopStringCharacters, 'a') + "\"").size(), 1u);
  std::string wide;
  for (int i = 0; i < limits::kMaxStopStringCharacters; ++i)
    wide += "\U0001f600";
  EXPECT_EQ(stops("\"" + wide + "\"").size(), 1u) << "characters count, not bytes";
  EXPECT_EQ(refused(with("stop", "\"" + wide + "a\"")), "stop");
  EXPECT_EQ(refused(with("stop", "[\"b\",\"" + std::string(limits::kMaxStopStringCharacters + 1, 'a') + "\"]")),
            "stop[1]");
}

TEST(CompletionFields, TooManyStopTokensAndBiases) {
  const std::string ids = numbers_text(0, limits::kMaxStopTokens);
  read_ok(with("stop_token_ids", "[" + ids + "]"));
  EXPECT_EQ(refused(with("stop_token_ids", "[" + ids + ",200]")), "stop_token_ids");
  EXPECT_EQ(refused(with("stop_token_ids", "[4104]")), "stop_token_ids") << "not within the vocabulary";
  EXPECT_EQ(refused(with("stop_token_ids", "[4103,-1]")), "stop_token_ids[1]");
  std::string biases = "\"0\":1";
  for (int i = 1; i < limits::kMaxLogitBias; ++i)
    biases += ",\"" + std::to_string(i) + "\":1";
  EXPECT_EQ(read_ok(with("logit_bias", "{" + biases + "}")).shared.sampling.logit_bias.size(),
            static_cast<size_t>(limits::kMaxLogitBias));
  EXPECT_EQ(refused(with("logit_bias", "{" + biases + ",\"2000\":1}")), "logit_bias");
  EXPECT_EQ(refused(with("logit_bias", "{\"4104\":1}")), "logit_bias.4104");
}

TEST(CompletionFields, RulesBetweenFields) {
  EXPECT_EQ(refused(body_of(R"("n":2,"best_of":3)")), "best_of");
  EXPECT_EQ(refused(body_of(R"("best_of":2)")), "best_of");
  EXPECT_EQ(refused(body_of(R"("max_tokens":4,"min_tokens":5)")), "min_tokens");
  EXPECT_EQ(refused(body_of(R"("max_tokens":0)")), "max_tokens");
  EXPECT_EQ(read_ok(body_of(R"("max_tokens":0,"echo":true)")).shared.max_tokens, 0u);
  EXPECT_EQ(refused(body_of(R"("stream_options":{"include_usage":true})")), "stream_options");
  EXPECT_EQ(refused(body_of(R"("stream":false,"stream_options":{})")), "stream_options");
  EXPECT_EQ(refused(with("stream_options", R"({"include_usage":1})")), "stream_options.include_usage");
  EXPECT_EQ(refused(with("stream_options", R"({"continuous_usage_stats":true})")),
            "stream_options.continuous_usage_stats");
  read_ok(with("stream_options", R"({"continuous_usage_stats":false,"include_usage":null})"));
  EXPECT_FALSE(read_ok(body_of(R"("logprobs":2)")).shared.sampling.prompt_logprobs);
  EXPECT_FALSE(read_ok(body_of(R"("echo":true)")).shared.sampling.prompt_logprobs);
}

TEST(CompletionFields, AnotherModelIsNotFound) {
  EXPECT_EQ(refused(body_of(R"("model":"other")"), demo_info(), Errc::kNotFound), "model");
  EXPECT_EQ(refused(body_of("\"model\":\"" + std::string(100'000, 'm') + "\""), demo_info(), Errc::kNotFound), "model");
  EXPECT_EQ(refused(body_of(R"("model":"")"), demo_info(), Errc::kNotFound), "model");
}

TEST(CompletionFields, UnknownOnesAreNamedWithinBounds) {
  const auto few = read_ok(body_of(R"("zeta":1,"alpha":{"n":[]},"be\u00e9\n,":null)")).unknown_fields;
  EXPECT_EQ(few.count, 3u);
  EXPECT_EQ(few.header(), "alpha, be???,, zeta");
  EXPECT_EQ(read_ok(with("stream_options", R"({"x":1})")).unknown_fields.header(), "stream_options.x");
  EXPECT_EQ(read_ok(body_of("")).unknown_fields.header(), "");
  std::string many = "\"" + std::string(1'000'000, 'u') + "\":1";
  for (int i = 0; i < 1000; ++i)
    many += ",\"v" + std::to_string(i) + "\":1";
  const auto unknown = read_ok(body_of(many)).unknown_fields;
  EXPECT_EQ(unknown.count, 1001u);
  EXPECT_EQ(unknown.names.size(), static_cast<size_t>(limits::kMaxNamedUnknownFields));
  EXPECT_LT(unknown.header().size(), 4096u);
  EXPECT_NE(unknown.header().find("1001 in all"), std::string::npos);
}

}  // namespace
}  // namespace krait::api
