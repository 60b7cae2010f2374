// The four forms of a prompt, and how much one request may ask for.
#include "common/base/limits.h"
#include "common/wire/codec.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {
namespace {

std::string ids_text(size_t count, const std::string& id = "1") {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i)
    text += (i > 0 ? "," : "") + id;
  return text + "]";
}

std::string repeated(size_t count, const std::string& item) {
  return ids_text(count, item);
}

TEST(Prompts, OfAllFourForms) {
  const auto hello = ids_of("Hello");
  const std::string ids = nlohmann::json(hello).dump();
  const auto prompts = [](const std::string& prompt) { return read_ok(body_of("", prompt)).prompts; };
  for (const std::string& form : {std::string("\"Hello\""), std::string("[\"Hello\"]"), ids, "[" + ids + "]"}) {
    const auto one = prompts(form);
    ASSERT_EQ(one.size(), 1u) << form;
    EXPECT_EQ(one[0].tokens, hello);
  }
  const auto two = prompts("[[7,8.0],[9]]");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(two[1].tokens, std::vector<int32_t>{9});
  const auto mixed = prompts("[\"Hello\",[5]]");
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed[1].tokens, std::vector<int32_t>{5});
}

TEST(Prompts, KeepTheirTextOnlyForAnEcho) {
  EXPECT_EQ(read_ok(body_of(R"("echo":true)")).prompts[0].text, "Hello");
  EXPECT_EQ(read_ok(body_of("")).prompts[0].text, "");
  EXPECT_EQ(read_ok(body_of(R"("echo":true)", nlohmann::json(ids_of("Hello you")).dump())).prompts[0].text,
            "Hello you");
}

TEST(Prompts, ThatAreEmptyOrMixedAreRefusedByPlace) {
  const auto param = [](const std::string& prompt) { return refused(body_of("", prompt)); };
  EXPECT_EQ(refused("{}"), "prompt");
  EXPECT_EQ(param("\"\""), "prompt");
  EXPECT_EQ(param("[]"), "prompt");
  EXPECT_EQ(param("[[]]"), "prompt[0]");
  EXPECT_EQ(param("[\"a\",\"\"]"), "prompt[1]");
  EXPECT_EQ(param("[[1],[]]"), "prompt[1]");
  EXPECT_EQ(param("[1,\"a\"]"), "prompt[1]");
  EXPECT_EQ(param("[1,[2]]"), "prompt[1]");
  EXPECT_EQ(param("[1,null]"), "prompt[1]");
  EXPECT_EQ(param("[[1],2]"), "prompt[1]");
  EXPECT_EQ(param("[[1],[2,\"a\"]]"), "prompt[1][1]");
  EXPECT_EQ(param("[\"a\",1]"), "prompt[1]");
  EXPECT_EQ(param("[\"a\",null]"), "prompt[1]");
}

TEST(Prompts, ThatAPatternOfTheTokenizerCannotMatchInTimeAreRefusedByPlace) {
  ModelInfo model = demo_info();
  model.tokenizer = tokenizer::Tokenizer::parse(R"({"model": {"type": "BPE", "vocab": {"x": 0}, "merges": []},
      "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated"}})")
                        .value();
  const std::string long_text = nlohmann::json(std::string(5'000, 'x') + "zy").dump();
  EXPECT_EQ(refused(body_of("", long_text), model), "prompt");
  EXPECT_EQ(refused(body_of("", "[\"x\"," + long_text + "]"), model), "prompt[1]");
  const auto request = read_completion_request(body_of("", long_text), model);
  EXPECT_EQ(request.error().message,
            "'prompt' cannot be tokenized: a pattern of the tokenizer needs too many steps for this text");
}

TEST(Prompts, WithIdsOutOfTheVocabularyAreRefused) {
  EXPECT_EQ(demo_info().vocab_size, 4104);
  read_ok(body_of("", "[4103,0]"));
  for (const char* id : {"4104", "-1", "4294967296", "4294967297", "9223372036854775807", "18446744073709551615", "1.5",
                         "1e300", "-0.5"}) {
    EXPECT_EQ(refused(body_of("", "[3," + std::string(id) + "]")), "prompt[1]") << id;
    EXPECT_EQ(refused(body_of("", "[[3],[3," + std::string(id) + "]]")), "prompt[1][1]") << id;
  }
}

TEST(Prompts, OfAMillionTokensAreReadAndMoreAreNot) {
  const auto most = static_cast<size_t>(limits::kMaxPromptTokens);
  EXPECT_EQ(read_ok(body_of("", ids_text(most))).prompts[0].tokens.size(), most);
  EXPECT_EQ(refused(body_of("", ids_text(most + 1))), "prompt");
  EXPECT_EQ(refused(body_of("", "[[1]," + ids_text(most + 1) + "]")), "prompt[1]");
}

TEST(Prompts, TooManyOrTooMuchInAllIsRefused) {
  const auto most = static_cast<size_t>(limits::kMaxPromptsPerRequest);
  EXPECT_EQ(read_ok(body_of("", repeated(most, "[1]"))).prompts.size(), most);
  EXPECT_EQ(refused(body_of("", repeated(most + 1, "[1]"))), "prompt");
  EXPECT_EQ(read_ok(body_of("\"n\":128", repeated(16, "[1]"))).generation().sequences(), 2048u);
  EXPECT_EQ(refused(body_of("\"n\":128", repeated(17, "[1]"))), "n");
  // Each choice has the whole prompt: 2^18 tokens 64 times are as many as one request may have.
  const auto tokens = static_cast<size_t>(limits::kMaxRequestTokens / 64);
  read_ok(body_of("\"n\":64", ids_text(tokens)));
  EXPECT_EQ(refused(body_of("\"n\":65", ids_text(tokens))), "prompt");
}

TEST(Prompts, WithEchoAndLogprobsAreShorter) {
  const auto most = static_cast<size_t>(limits::kMaxEchoLogprobTokens);
  read_ok(body_of(R"("echo":true,"logprobs":0)", ids_text(most)));
  EXPECT_EQ(refused(body_of(R"("echo":true,"logprobs":0)", ids_text(most + 1))), "prompt");
  read_ok(body_of(R"("echo":true)", ids_text(most + 1)));
  read_ok(body_of(R"("logprobs":0)", ids_text(most + 1)));
}

// A tokenizer with added tokens that the weights lack: no id of theirs may reach a group.
TEST(Prompts, WhoseTokensTheModelLacksAreRefusedByName) {
  auto model = demo_info();
  const auto ids = ids_of("Hello you");
  model.vocab_size = *std::max_element(ids.begin(), ids.end());
  EXPECT_EQ(refused(body_of("", R"("Hello you")"), model), "prompt");
  EXPECT_EQ(refused(body_of("", R"([[1],"Hello you"])"), model), "prompt[1]");
  EXPECT_EQ(refused(body_of("", R"([4000])"), model), "prompt[0]");
  model.vocab_size += 1;
  EXPECT_EQ(read_ok(body_of("", R"("Hello you")"), model).prompts[0].tokens, ids);
  EXPECT_EQ(read_ok(body_of("", R"("Hello you")"), model).shared.sampling.vocab_limit, 0u);
}

TEST(Prompts, WithoutATokenizerAreIds) {
  const auto model = info_without_tokenizer();
  EXPECT_EQ(refused(body_of(""), model), "prompt");
  EXPECT_EQ(refused(body_of("", "[[1],\"a\"]"), model), "prompt[1]");
  EXPECT_EQ(refused(body_of(R"("stop":"x")", "[1]"), model), "stop");
  const auto request = read_ok(body_of(R"("echo":true,"stop":[],"stop_token_ids":[3])", "[1,2]"), model);
  EXPECT_EQ(request.prompts[0].tokens, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.prompts[0].text, "");
  EXPECT_EQ(request.shared.sampling.vocab_limit, 0u);
  EXPECT_EQ(token_string(model, 17), "token_id:17");
}

TEST(Prompts, WhatIsAcceptedAtTheLimitsPassesTheWire) {
  const std::string stops = numbers_text(1, limits::kMaxStopTokens);
  const auto request = read_ok(body_of(
      R"("max_tokens":1048576,"min_tokens":1048576,"top_k":4194304,"logprobs":20,"temperature":100,"n":16,)"
      R"("repetition_penalty":0.01,"presence_penalty":-2,"frequency_penalty":2,"top_p":1e-30,"min_p":1,"seed":18446744073709551615,"stop_token_ids":[)" +
          stops + "]",
      ids_text(static_cast<size_t>(limits::kMaxPromptTokens), "4103")));
  const auto spec = request.generation();
  const wire::Submit submit = spec.submit(spec.sequences() - 1);
  const auto back = wire::decode(wire::encode(submit));
  ASSERT_TRUE(back.ok()) << to_string(back.error());
  EXPECT_EQ(std::get<wire::Submit>(*back), submit);
}

}  // namespace
}  // namespace krait::api
