#include "coordinator/api/json_body.h"

#include <gtest/gtest.h>

#include "common/base/limits.h"

namespace krait::api {
namespace {

Error refusal(std::string_view body) {
  const auto parsed = parse_body(body);
  if (parsed.ok()) {
    ADD_FAILURE() << body.substr(0, 100) << " was accepted as " << parsed->dump();
    return {};
  }
  EXPECT_EQ(parsed.error().code, Errc::kInvalidArgument);
  EXPECT_FALSE(parsed.error().message.empty());
  EXPECT_LT(parsed.error().message.size(), 400u) << "a message must not repeat a body";
  return parsed.error();
}

std::string nested(int levels, std::string_view inside) {
  std::string body = R"({"a":)";
  for (int i = 1; i < levels; ++i)
    body += "[";
  body += inside;
  for (int i = 1; i < levels; ++i)
    body += "]";
  return body + "}";
}

TEST(ParseBody, TakesObjects) {
  EXPECT_EQ(parse_body("{}").value().size(), 0u);
  EXPECT_EQ(parse_body(" \r\n{\"a\" : [1, 2.5, null, true, \"\\u00e9\\ud83d\\ude00\"]} \t").value()["a"].size(), 5u);
  EXPECT_EQ(parse_body(R"({"a":{"x":1},"b":{"x":2}})").value()["b"]["x"], 2) << "one key in two objects";
}

TEST(ParseBody, RefusesWhatIsNoObject) {
  for (const std::string_view body : {"", " ", "null", "1", "\"text\"", "[]", "[{}]", "true"})
    refusal(body);
}

TEST(ParseBody, RefusesWhatIsNoJson) {
  for (const std::string_view body : {"{",
                                      "{\"a\":1",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{'a':1}",
                                      "{a:1}",
                                      "{\"a\":1,}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":1}x",
                                      "{}{}",
                                      "{} []",
                                      "{\"a\":01}",
                                      "{\"a\":+1}",
                                      "{\"a\":.5}",
                                      "{\"a\":1.}",
                                      "{\"a\":0x10}",
                                      "{\"a\":NaN}",
                                      "{\"a\":nan}",
                                      "{\"a\":Infinity}",
                                      "{\"a\":-Infinity}",
                                      "{\"a\":tru}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\\x41\"}",
                                      "// c\n{}"}) {
    refusal(body);
  }
  refusal(std::string_view("{\"a\":1}\0", 8));
  refusal(std::string_view("{\"a\0\":1}", 8));
}

TEST(ParseBody, RefusesInvalidText) {
  for (const std::string_view text : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf5\x80\x80\x80", "\\ud800",
                                      "\\ude00", "\\ud83dx", "\\ud83d\\u0041", "\\u12", "\\ud83d"}) {
    refusal(std::string("{\"prompt\":\"") + std::string(text) + "\"}");
    refusal(std::string("{\"") + std::string(text) + "\":1}");
  }
}

TEST(ParseBody, RefusesNumbersBeyondADouble) {
  for (const std::string_view number : {"1e999", "-1e999", "1e400"})
    refusal(R"({"a":)" + std::string(number) + "}");
  refusal(R"({"a":1)" + std::string(2'000'000, '0') + "}");
  // Beyond 64 bits, but a double: what takes integers refuses it later, by name.
  EXPECT_TRUE(parse_body(R"({"a":18446744073709551616})").value()["a"].is_number_float());
  EXPECT_TRUE(parse_body(R"({"a":18446744073709551615})").value()["a"].is_number_unsigned());
  EXPECT_EQ(parse_body(R"({"a":1e-999})").value()["a"], 0.0);
}

TEST(ParseBody, TakesExactlySoManyLevels) {
  EXPECT_TRUE(parse_body(nested(limits::kMaxJsonDepth, "1")).ok());
  EXPECT_TRUE(parse_body(nested(limits::kMaxJsonDepth - 1, R"({"b":1})")).ok());
  EXPECT_NE(refusal(nested(limits::kMaxJsonDepth + 1, "1")).message.find("levels"), std::string::npos);
  EXPECT_NE(refusal(nested(limits::kMaxJsonDepth, R"({"b":1})")).message.find("levels"), std::string::npos);
  refusal(nested(1'000'000, ""));
  std::string objects;
  for (int i = 0; i < 200'000; ++i)
    objects += R"({"a":)";
  refusal(objects);
}

TEST(ParseBody, NamesAKeyThatStandsTwice) {
  EXPECT_EQ(refusal(R"({"n":1,"prompt":"x","n":2})").param, "n");
  EXPECT_EQ(refusal(R"({"a":{"b":1,"c":[],"b":1}})").param, "b");
  EXPECT_EQ(refusal(R"({"n":1,"\u006e":2})").param, "n") << "however it is spelled";
  const std::string key(100'000, 'k');
  EXPECT_LT(refusal(R"({")" + key + R"(":1,")" + key + R"(":1})").param.size(), 300u);
}

TEST(ParseBody, TakesSoManyPartsAsTheMostMessagesHave) {
  std::string messages, parts;
  for (int i = 0; i < limits::kMaxChatMessages; ++i)
    messages += R"({"role":"user","content":[{"type":"text","text":"a"}]},)";
  EXPECT_TRUE(parse_body(R"({"messages":[)" + messages + "0]}").ok());
  for (int i = 0; i < 10 * limits::kMaxChatMessages; ++i)
    parts += "{},";
  const Error error = refusal(R"({"prompt":"","metadata":[)" + parts + "0]}");
  EXPECT_NE(error.message.find("more than 1000000 arrays, objects and keys"), std::string::npos) << error.message;
  EXPECT_EQ(error.param, "metadata");
}

TEST(ParseBody, NamesTheFieldThatItCouldNotRead) {
  EXPECT_EQ(refusal(R"({"n":1,"temperature":NaN})").param, "temperature");
  EXPECT_EQ(refusal(R"({"top_p":-Infinity,"n":1})").param, "top_p");
  EXPECT_EQ(refusal(R"({"n":1,"max_tokens":1e999})").param, "max_tokens");
  EXPECT_EQ(refusal(R"({"logit_bias":{"5":1e999}})").param, "logit_bias");
  EXPECT_EQ(refusal(R"({"model":"a","prompt":"\ud800"})").param, "prompt");
  EXPECT_EQ(refusal("{\"prompt\":\"a\",\"stop\":[\"\xff\"]}").param, "stop");
  EXPECT_EQ(refusal("{\"prompt\":" + std::string(100, '[')).param, "prompt");
  EXPECT_EQ(refusal("{").param, "");
}

TEST(ParseBody, DoesNotRepeatWhatItCouldNotRead) {
  const std::string secret = "my prompt";
  EXPECT_EQ(refusal(R"({"prompt":")" + secret + "\n").message.find(secret), std::string::npos);
  EXPECT_EQ(refusal(R"({"prompt":")" + std::string(1'000'000, 'x')).message.find("xx"), std::string::npos);
}

TEST(Dump, WritesWhatIsNoUtf8AsReplacement) {
  nlohmann::ordered_json value;
  value["b"] = "\xff";
  value["a"] = 1;
  EXPECT_EQ(dump(value), "{\"b\":\"\xef\xbf\xbd\",\"a\":1}");
}

TEST(Dump, KeepsEveryBitOfAFloat) {
  for (const float logprob : {-0.1f, -1.1754944e-38f, -3.4028235e38f, -12.345678f, -0.0f, -1e-45f}) {
    const auto text = dump(nlohmann::ordered_json(logprob));
    EXPECT_EQ(static_cast<float>(std::stod(text)), logprob) << text;
    EXPECT_EQ(std::stod(text), static_cast<double>(logprob)) << "the double that the float is: " << text;
  }
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("short"), "short");
  const std::string longer = std::string(limits::kMaxQuotedBytes - 1, 'a') + "\xe2\x82\xac";
  EXPECT_EQ(shortened(longer), std::string(limits::kMaxQuotedBytes - 1, 'a') + "...");
  EXPECT_EQ(shortened(std::string(limits::kMaxQuotedBytes, 'a')).size(), static_cast<size_t>(limits::kMaxQuotedBytes));
}

}  // namespace
}  // namespace krait::api
