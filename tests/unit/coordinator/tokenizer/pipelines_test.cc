// Every part of a pipeline, in small tokenizers, against Hugging Face tokenizers.
#include <gtest/gtest.h>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

class Pipelines : public testing::Test {
 protected:
  static const std::vector<nlohmann::json>& all() {
    static const std::vector<nlohmann::json> kAll = read_json_lines("pipelines.jsonl");
    return kAll;
  }

  static std::shared_ptr<const Tokenizer> parse(const nlohmann::json& line) {
    auto parsed = Tokenizer::parse(line["tokenizer"].dump());
    EXPECT_TRUE(parsed.ok()) << line["name"] << ": " << (parsed.ok() ? "" : to_string(parsed.error()));
    return parsed.ok() ? *parsed : nullptr;
  }
};

TEST_F(Pipelines, AreAllThere) {
  EXPECT_EQ(all().size(), kPipelines);
}

TEST_F(Pipelines, EncodeLikeTheReference) {
  for (const auto& line : all()) {
    const auto tokenizer = parse(line);
    ASSERT_NE(tokenizer, nullptr);
    for (const auto& expected : line["cases"]) {
      const auto text = expected["text"].get<std::string>();
      EXPECT_EQ(nlohmann::json(encode(*tokenizer, text)), expected["ids"]) << line["name"] << expected["text"];
      EXPECT_EQ(nlohmann::json(encode(*tokenizer, text, true)), expected["special_ids"])
          << line["name"] << expected["text"];
      EXPECT_EQ(nlohmann::json(encode(*tokenizer, text, false, false)), expected["plain_ids"])
          << line["name"] << expected["text"];
    }
  }
}

TEST_F(Pipelines, DecodeLikeTheReferenceWholeAndStreamed) {
  size_t compared = 0;
  for (const auto& line : all()) {
    const auto tokenizer = parse(line);
    ASSERT_NE(tokenizer, nullptr);
    for (const auto& expected : line["cases"]) {
      const auto ids = expected["ids"].get<std::vector<int32_t>>();
      for (const bool skip : {false, true}) {
        const auto& text = expected[skip ? "decoded_skip" : "decoded"];
        if (text.is_null()) continue;
        EXPECT_EQ(tokenizer->decode(ids, skip), text.get<std::string>()) << line["name"] << expected["text"];
      }
      // Streams that end after each prefix, against the reference's decoding of that prefix.
      for (size_t cut = 0; cut < expected["prefixes"].size(); ++cut) {
        const auto& prefix = expected["prefixes"][cut];
        StreamDecoder stream(tokenizer, false);
        std::string text;
        for (size_t i = 0; i < cut; ++i) {
          const std::string piece = stream.push(ids[i]);
          EXPECT_TRUE(is_utf8(piece)) << line["name"] << expected["text"];
          text += piece;
        }
        text += stream.flush();
        EXPECT_EQ(text, tokenizer->decode(std::span(ids).first(cut), false));
        if (prefix.is_null()) continue;
        EXPECT_EQ(text, prefix.get<std::string>()) << line["name"] << expected["text"] << " cut at " << cut;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20'000u);
}

TEST_F(Pipelines, StreamsOfAnyIdsAreTheTextOfTheWhole) {
  std::mt19937 random(6);
  for (const auto& line : all()) {
    const auto tokenizer = parse(line);
    ASSERT_NE(tokenizer, nullptr);
    for (int round = 0; round < test::draws({.usual = 60, .sanitized = 10, .long_run = 600}); ++round) {
      expect_streams_are_whole(tokenizer, any_ids(*tokenizer, random));
      ASSERT_FALSE(HasFailure()) << line["name"];
    }
  }
}

TEST_F(Pipelines, ATokensTextIsItsBytesOrSpellsThem) {
  size_t spelled = 0;
  for (const auto& line : all()) {
    const auto tokenizer = parse(line);
    ASSERT_NE(tokenizer, nullptr);
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      const std::string bytes = tokenizer->token_bytes(id);
      std::string expected = bytes;
      if (!is_utf8(bytes)) {
        expected = "bytes:";
        for (const char byte : bytes)
          expected += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
        ++spelled;
      }
      ASSERT_EQ(tokenizer->token_text(id), expected) << line["name"] << id;
    }
  }
  EXPECT_GT(spelled, 5'000u) << "most pipelines have tokens that are no whole character";
}

}  // namespace
}  // namespace krait::tokenizer
