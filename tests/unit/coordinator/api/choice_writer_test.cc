// Chunks of a sequence become a choice's JSON.
#include "coordinator/api/choice_writer.h"

#include "coordinator/api/json_body.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;
using requests::EndReason;
using requests::OutputChunk;
using requests::SequenceEnd;

wire::TokenInfo info(int32_t token, float logprob, std::vector<wire::TokenLogprob> top = {}) {
  return {token, logprob, std::move(top)};
}

OutputChunk chunk_of(const std::string& text, std::vector<wire::TokenInfo> tokens) {
  OutputChunk chunk;
  chunk.text = text;
  chunk.tokens = std::move(tokens);
  return chunk;
}

OutputChunk end_of(EndReason reason, const std::string& stop_string = "") {
  OutputChunk chunk;
  chunk.end = SequenceEnd{reason, stop_string, 0, 0};
  return chunk;
}

ordered_json taken_from(ChoiceWriter& writer) {
  return ordered_json::parse(writer.take());
}

/// A text's tokens with made-up logprobs.
std::vector<wire::TokenInfo> infos_of(const std::string& text) {
  std::vector<wire::TokenInfo> infos;
  for (const int32_t id : ids_of(text))
    infos.push_back(info(id, -1.0f - static_cast<float>(infos.size())));
  return infos;
}

TEST(ChoiceWriter, PlainText) {
  const auto request = read_ok(body_of(""));
  const auto model = demo_info();
  ChoiceWriter writer(request, model, 0);
  EXPECT_FALSE(writer.has_news());
  writer.add(chunk_of(" you", infos_of(" you")));
  EXPECT_TRUE(writer.has_news());
  writer.add(end_of(EndReason::kLength));
  EXPECT_EQ(dump(taken_from(writer)),
            R"({"index":0,"text":" you","logprobs":null,"finish_reason":"length","stop_reason":null})");
}

TEST(ChoiceWriter, ReasonsOfTheEnd) {
  const auto request = read_ok(body_of(R"("n":2,"stop_token_ids":[9])"));
  const auto model = demo_info();
  const auto taken = [&](std::vector<wire::TokenInfo> tokens, OutputChunk end) {
    ChoiceWriter writer(request, model, 1);
    writer.add(chunk_of("", std::move(tokens)));
    EXPECT_TRUE(taken_from(writer)["finish_reason"].is_null());
    writer.add(end);
    EXPECT_TRUE(writer.has_news());
    return taken_from(writer);
  };
  EXPECT_EQ(taken({info(5, 0)}, end_of(EndReason::kLength))["index"], 1);
  const auto by_string = taken({info(5, 0)}, end_of(EndReason::kStop, "\n\n"));
  EXPECT_EQ(by_string["finish_reason"], "stop");
  EXPECT_EQ(by_string["stop_reason"], "\n\n");
  EXPECT_EQ(taken({info(5, 0), info(9, 0)}, end_of(EndReason::kStop))["stop_reason"], 9);
  EXPECT_TRUE(taken({info(5, 0), info(0, 0)}, end_of(EndReason::kStop))["stop_reason"].is_null()) << "the model's own";
}

TEST(ChoiceWriter, LogprobsHaveTheChosenTokenAndOffsetsInCharacters) {
  const auto request = read_ok(body_of(R"("logprobs":2,"return_token_ids":true)"));
  const auto model = demo_info();
  const std::string text = "caf\u00e9 \u2014 na\u00efve \U0001f600!";
  const auto ids = ids_of(text);
  ChoiceWriter writer(request, model, 0);
  std::vector<wire::TokenInfo> infos;
  for (const int32_t id : ids)
    infos.push_back(info(id, -2.5f, {{17, -0.5f}, {18, -0.75f}}));
  writer.add(chunk_of(text, infos));
  const auto choice = taken_from(writer);
  EXPECT_EQ(choice["token_ids"].get<std::vector<int32_t>>(), ids);
  const auto& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), ids.size());
  ASSERT_EQ(logprobs["token_logprobs"].size(), ids.size());
  ASSERT_EQ(logprobs["top_logprobs"].size(), ids.size());
  ASSERT_EQ(logprobs["text_offset"].size(), ids.size());
  // Independently: a token begins where the text of those before it ends, counted in whole characters.
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string before;
    for (size_t j = 0; j < i; ++j)
      before += model.tokenizer->token_bytes(ids[j]);
    int64_t whole = 0;
    for (size_t at = 0; at < before.size();) {
      const auto lead = static_cast<unsigned char>(before[at]);
      at += lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
      if (at <= before.size()) ++whole;
    }
    EXPECT_EQ(logprobs["text_offset"][i], whole) << i;
    EXPECT_EQ(logprobs["tokens"][i], model.tokenizer->token_text(ids[i]));
    EXPECT_EQ(logprobs["token_logprobs"][i], -2.5);
    const auto& top = logprobs["top_logprobs"][i];
    EXPECT_EQ(top.size(), 3u);
    EXPECT_EQ(top[model.tokenizer->token_text(ids[i])], -2.5);
    EXPECT_EQ(top[model.tokenizer->token_text(17)], -0.5);
  }
}

TEST(ChoiceWriter, LogprobsZeroHasOnlyTheChosenToken) {
  const auto request = read_ok(body_of(R"("logprobs":0)"));
  const auto model = demo_info();
  ChoiceWriter writer(request, model, 0);
  writer.add(chunk_of("x", {info(ids_of("x")[0], -0.25f)}));
  const auto choice = taken_from(writer);
  EXPECT_EQ(dump(choice["logprobs"]),
            R"({"tokens":["x"],"token_logprobs":[-0.25],"top_logprobs":[{"x":-0.25}],"text_offset":[0]})");
}

TEST(ChoiceWriter, TheChosenTokenAmongTheMostLikelyStandsThereOnce) {
  const auto request = read_ok(body_of(R"("logprobs":2)"));
  const auto model = demo_info();
  const int32_t x = ids_of("x")[0];
  const int32_t y = ids_of("y")[0];
  ChoiceWriter writer(request, model, 0);
  writer.add(chunk_of("x", {info(x, -0.25f, {{x, -0.25f}, {y, -2.0f}})}));
  EXPECT_EQ(dump(taken_from(writer)["logprobs"]["top_logprobs"]), R"([{"x":-0.25,"y":-2.0}])");
}

TEST(ChoiceWriter, AnEchoBeginsWithThePromptWhoseFirstTokenHasNoProbability) {
  const auto request = read_ok(body_of(R"("echo":true,"logprobs":1)", R"("Hello you")"));
  const auto model = demo_info();
  const auto prompt = ids_of("Hello you");
  ASSERT_GE(prompt.size(), 2u);
  ChoiceWriter writer(request, model, 0);
  OutputChunk scored;
  for (size_t i = 1; i < prompt.size(); ++i)
    scored.prompt_logprobs.push_back(info(prompt[i], -0.5f, {{3, -0.125f}}));
  writer.add(scored);
  writer.add(chunk_of(" too", infos_of(" too")));
  writer.add(end_of(EndReason::kLength));
  const auto choice = taken_from(writer);
  EXPECT_EQ(choice["text"], "Hello you too");
  const auto& logprobs = choice["logprobs"];
  const size_t all = prompt.size() + ids_of(" too").size();
  ASSERT_EQ(logprobs["tokens"].size(), all);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["token_logprobs"][1], -0.5);
  EXPECT_EQ(logprobs["text_offset"][0], 0);
  EXPECT_EQ(logprobs["text_offset"][prompt.size()], 9) << "the output begins where the prompt ends";
}

TEST(ChoiceWriter, AnEchoOfOneTokenWithoutOutput) {
  const auto request = read_ok(body_of(R"("echo":true,"logprobs":1,"max_tokens":0)", "[5]"));
  const auto model = demo_info();
  ChoiceWriter writer(request, model, 0);
  writer.add(end_of(EndReason::kLength));
  const auto choice = taken_from(writer);
  EXPECT_EQ(choice["text"], model.tokenizer->decode(std::vector<int32_t>{5}, false));
  EXPECT_EQ(dump(choice["logprobs"]["token_logprobs"]), "[null]");
}

TEST(ChoiceWriter, EachChoiceEchoesItsOwnPrompt) {
  const auto request = read_ok(body_of(R"("echo":true,"n":2)", R"(["one","two"])"));
  const auto model = demo_info();
  std::vector<std::string> texts;
  for (size_t i = 0; i < 4; ++i)
    texts.push_back(ordered_json::parse(ChoiceWriter(request, model, i).take())["text"]);
  EXPECT_EQ(texts, (std::vector<std::string>{"one", "one", "two", "two"}));
}

TEST(ChoiceWriter, WithoutATokenizerTokensAreNumbers) {
  const auto model = info_without_tokenizer();
  const auto request = read_ok(body_of(R"("logprobs":1,"echo":true,"return_token_ids":true)", "[7,8]"), model);
  ChoiceWriter writer(request, model, 0);
  OutputChunk scored;
  scored.prompt_logprobs.push_back(info(8, -1.0f, {{9, -0.5f}}));
  writer.add(scored);
  writer.add(chunk_of("", {info(30, -0.25f, {{30, -0.25f}})}));
  EXPECT_EQ(
      dump(taken_from(writer)),
      R"({"index":0,"text":"","logprobs":{"tokens":["token_id:7","token_id:8","token_id:30"],)"
      R"("token_logprobs":[null,-1.0,-0.25],"top_logprobs":[null,{"token_id:9":-0.5,"token_id:8":-1.0},)"
      R"({"token_id:30":-0.25}],"text_offset":[0,0,0]},"token_ids":[30],"finish_reason":null,"stop_reason":null})");
}

TEST(ChoiceWriter, ThePiecesOfAStreamPutTogetherAreTheWhole) {
  const std::string fields = R"("logprobs":1,"echo":true,"return_token_ids":true,"seed":1)";
  const auto whole_request = read_ok(body_of(fields));
  const auto stream_request = read_ok(body_of(fields + R"(,"stream":true)"));
  const auto model = demo_info();
  ChoiceWriter whole(whole_request, model, 0);
  ChoiceWriter stream(stream_request, model, 0);
  ordered_json joined = {{"text", ""}};
  const auto append = [&](const ordered_json& piece) {
    joined["text"] = joined["text"].get<std::string>() + piece["text"].get<std::string>();
    for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      if (piece["logprobs"].is_null()) continue;
      for (const auto& item : piece["logprobs"][list])
        joined["logprobs"][list].push_back(item);
    }
    for (const auto& id : piece["token_ids"])
      joined["token_ids"].push_back(id);
    joined["finish_reason"] = piece["finish_reason"];
  };
  std::vector<OutputChunk> chunks(2);
  const auto prompt = ids_of("Hello");
  for (size_t i = 1; i < prompt.size(); ++i)
    chunks[0].prompt_logprobs.push_back(info(prompt[i], -0.5f));
  chunks[1].text = " caf";
  for (const auto& token : infos_of(" caf\u00e9 \U0001f600"))
    chunks.push_back(chunk_of("", {token}));
  chunks.push_back(chunk_of("\u00e9 \U0001f600", {}));
  chunks.push_back(end_of(EndReason::kLength));
  for (const auto& chunk : chunks) {
    whole.add(chunk);
    stream.add(chunk);
    if (stream.has_news()) append(taken_from(stream));
  }
  const auto expected = taken_from(whole);
  EXPECT_EQ(joined["text"], "Hello caf\u00e9 \U0001f600");
  for (const char* name : {"text", "logprobs", "token_ids", "finish_reason"})
    EXPECT_EQ(joined[name], expected[name]) << name;
}

TEST(ChoiceWriter, NumbersAndStringsAreWrittenAsDumpWritesThem) {
  for (const double number : {0.0, -0.0, -1.0, -0.1, 1e-7, -1e-7, -17.123456001, -1e22, 3e300, -123456789.0, 5e-324}) {
    std::string text;
    append_number(text, number);
    const auto back = ordered_json::parse(text);
    EXPECT_TRUE(back.is_number_float()) << text;
    EXPECT_EQ(back.get<double>(), number) << text;
  }
  std::string infinite;
  append_number(infinite, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(infinite, "null");
  for (const std::string string : {"", "plain", "a\"b\\c/d", "line\nbreak\ttab\x01", "\x7f", "caf\xc3\xa9",
                                   "\xf0\x9f\x98", "\xff\xfe", "mixed \xe2\x82 end"}) {
    std::string text;
    append_string(text, string);
    EXPECT_EQ(text, dump(string));
  }
}

TEST(ChoiceWriter, WhatTellsOfThePromptIsKnown) {
  const auto request = read_ok(body_of(R"("echo":true,"logprobs":1,"stream":true)"));
  const auto model = demo_info();
  ChoiceWriter writer(request, model, 0);
  EXPECT_TRUE(writer.tells_of_prompt());
  EXPECT_GT(writer.size(), 4u);
  taken_from(writer);
  EXPECT_FALSE(writer.tells_of_prompt());
  EXPECT_EQ(writer.size(), 0u);
  writer.add(chunk_of("x", infos_of("x")));
  EXPECT_FALSE(writer.tells_of_prompt());
  OutputChunk scored;
  scored.prompt_logprobs.push_back(info(3, -1.0f));
  writer.add(scored);
  EXPECT_TRUE(writer.tells_of_prompt());
}

TEST(ChoiceWriter, APieceOfAStreamWithoutTokensHasNoLogprobsObject) {
  const auto request = read_ok(body_of(R"("logprobs":1,"stream":true)"));
  const auto model = demo_info();
  ChoiceWriter writer(request, model, 0);
  writer.add(chunk_of("x", infos_of("x")));
  EXPECT_TRUE(taken_from(writer)["logprobs"].is_object());
  writer.add(end_of(EndReason::kLength));
  const auto last = taken_from(writer);
  EXPECT_TRUE(last["logprobs"].is_null());
  EXPECT_EQ(last["finish_reason"], "length");
}

}  // namespace
}  // namespace krait::api
