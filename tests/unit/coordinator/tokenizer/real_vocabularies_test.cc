// Three real vocabularies against Hugging Face tokenizers, 1,500 texts each, and every cut of every text's tokens.
#include <gtest/gtest.h>

#include <thread>

#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

class RealVocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer_ = load_golden(GetParam());
    ASSERT_NE(tokenizer_, nullptr);
    cases_ = read_json_lines(std::string(GetParam()) + ".cases.jsonl");
    ASSERT_EQ(cases_.size(), 1500u);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<nlohmann::json> cases_;
};

TEST_P(RealVocabulary, EncodesAndDecodesLikeTheReference) {
  for (const auto& expected : cases_) {
    const auto text = expected["text"].get<std::string>();
    const auto ids = encode(*tokenizer_, text);
    ASSERT_EQ(nlohmann::json(ids), expected["ids"]) << expected["text"];
    ASSERT_EQ(nlohmann::json(encode(*tokenizer_, text, true)), expected["special_ids"]) << expected["text"];
    ASSERT_EQ(tokenizer_->decode(ids, false), expected["decoded"].get<std::string>()) << expected["text"];
    ASSERT_EQ(tokenizer_->decode(ids, true), expected["decoded_skip"].get<std::string>()) << expected["text"];
  }
  fmt::print("{}: {} of {} cases equal\n", GetParam(), cases_.size(), cases_.size());
}

TEST_P(RealVocabulary, StreamsTheSameTextAtEveryCut) {
  constexpr size_t kEveryCutBelow =
      150;  // longer sequences are cut at every 97th token: the work grows with the square
  for (const auto& expected : cases_) {
    const auto ids = expected["ids"].get<std::vector<int32_t>>();
    for (const bool skip : {false, true}) {
      StreamDecoder stream(tokenizer_, skip);
      std::string sent;
      for (size_t cut = 0; cut <= ids.size(); ++cut) {
        if (ids.size() < kEveryCutBelow || cut % 97 == 0) {
          StreamDecoder shorter(tokenizer_, skip);
          std::string text;
          for (size_t i = 0; i < cut; ++i)
            text += shorter.push(ids[i]);
          ASSERT_EQ(text, sent) << "what was sent depends on the pushes before it only";
          text += shorter.flush();
          ASSERT_EQ(text, tokenizer_->decode(std::span(ids).first(cut), skip)) << expected["text"] << " cut at " << cut;
        }
        if (cut == ids.size()) break;
        const std::string piece = stream.push(ids[cut]);
        ASSERT_TRUE(is_utf8(piece)) << expected["text"] << " at token " << cut;
        sent += piece;
      }
      ASSERT_EQ(sent + stream.flush(), expected[skip ? "decoded_skip" : "decoded"].get<std::string>());
    }
  }
}

TEST_P(RealVocabulary, StreamsOfAnyIdsAreTheTextOfTheWhole) {
  std::mt19937 random(6);
  for (int round = 0; round < test::draws({.usual = 500, .sanitized = 50, .long_run = 5'000}); ++round) {
    expect_streams_are_whole(tokenizer_, any_ids(*tokenizer_, random));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(RealVocabulary, ThreadsDoNotDisturbEachOther) {
  constexpr size_t kThreads = 6;
  std::vector<size_t> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < cases_.size(); i += 3) {
        const auto ids = tokenizer_->encode(cases_[i]["text"].get<std::string>(), {.add_special_tokens = false});
        if (!ids.ok() || nlohmann::json(*ids) != cases_[i]["ids"] ||
            tokenizer_->decode(*ids, false) != cases_[i]["decoded"].get<std::string>()) {
          ++wrong[t];
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<size_t>(kThreads, 0));
}

TEST_P(RealVocabulary, ALongTextIsTheSumOfItsWords) {
  // Long enough to fill the word cache several times over, and each line by itself encodes without its neighbours.
  std::string text;
  std::vector<int32_t> expected;
  const bool joins =
      std::string(GetParam()) == "mistral";  // puts a mark before the text, so lines depend on their place
  for (uint32_t i = 0; i < 60'000; ++i) {
    const std::string line = fmt::format("{}\n", i * 2654435761u);
    text += line;
    if (!joins) {
      const auto ids = encode(*tokenizer_, line);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
  }
  const auto ids = encode(*tokenizer_, text);
  if (!joins) {
    EXPECT_EQ(ids, expected);
  }
  EXPECT_EQ(tokenizer_->decode(ids, false), text);
}

INSTANTIATE_TEST_SUITE_P(All, RealVocabulary, testing::Values("gpt-neox", "falcon", "mistral"), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

TEST(GptNeox, ALongTextWithoutSpacesIsEncodedInTime) {
  // With merging in quadratic time this would run for hours, into the test's limit.
  const auto tokenizer = load_golden("gpt-neox");
  ASSERT_NE(tokenizer, nullptr);
  std::string letters;
  for (uint32_t seed = 1; letters.size() < 1'000'000; seed = seed * 1664525 + 1013904223) {
    letters.push_back(static_cast<char>('a' + (seed >> 24) % 26));
  }
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, letters), false), letters);
  const auto same = encode(*tokenizer, std::string(1'000'000, 'a'));
  EXPECT_EQ(tokenizer->decode(same, false), std::string(1'000'000, 'a'));
}

TEST(GptNeox, TellsAboutItsTokens) {
  const auto tokenizer = load_golden("gpt-neox");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 50277);
  EXPECT_EQ(tokenizer->token_to_id("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer->token_to_id("  "), 50276);
  EXPECT_EQ(tokenizer->token_to_id("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(50276));
  for (const int32_t id : {-1, 50277, 50279, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{id, 0, id}, false), "<|endoftext|>") << id;
    EXPECT_EQ(tokenizer->token_text(id), "");
  }
  const auto world = encode(*tokenizer, " world");
  ASSERT_EQ(world.size(), 1u);
  EXPECT_EQ(tokenizer->token_text(world[0]), " world");
  const auto rocket = encode(*tokenizer, "\U0001f680");
  ASSERT_GT(rocket.size(), 1u);
  std::string bytes;
  std::string spelled;
  for (const int32_t id : rocket) {
    bytes += tokenizer->token_bytes(id);
    EXPECT_EQ(tokenizer->token_text(id).rfind("bytes:\\x", 0), 0u);
    spelled += tokenizer->token_text(id).substr(6);
  }
  EXPECT_EQ(bytes, "\U0001f680");
  EXPECT_EQ(spelled, "\\xf0\\x9f\\x9a\\x80");
}

TEST(GptNeox, SpecialTextIsParsedOnlyWhereAllowed) {
  const auto tokenizer = load_golden("gpt-neox");
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "a<|endoftext|>  b";
  const auto parsed = encode(*tokenizer, text);
  const auto plain = encode(*tokenizer, text, false, false);
  EXPECT_NE(std::find(parsed.begin(), parsed.end(), 0), parsed.end());
  EXPECT_EQ(std::find(plain.begin(), plain.end(), 0), plain.end());
  EXPECT_NE(std::find(plain.begin(), plain.end(), 50276), plain.end())
      << "an added token that is not special stays one";
  EXPECT_EQ(tokenizer->decode(plain, true), text);
}

TEST(GptNeox, TextThatIsNotUtf8IsRefused) {
  const auto tokenizer = load_golden("gpt-neox");
  ASSERT_NE(tokenizer, nullptr);
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    const auto ids = tokenizer->encode(text, {});
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.error().code, Errc::kInvalidArgument);
  }
}

TEST(Mistral, TokensOfBytesAreJoined) {
  const auto tokenizer = load_golden("mistral");
  ASSERT_NE(tokenizer, nullptr);
  const auto id = [&](const char* token) { return tokenizer->token_to_id(token).value_or(-1); };
  EXPECT_EQ(tokenizer->token_bytes(id("<0xF0>")), "\xf0");
  EXPECT_EQ(tokenizer->token_text(id("<0xF0>")), "bytes:\\xf0");
  EXPECT_EQ(tokenizer->token_text(id("<0x41>")), "A");
  EXPECT_EQ(tokenizer->token_text(id("\u2581the")), " the");
  StreamDecoder stream(tokenizer, false);
  std::string text;
  for (const char* byte : {"<0xF0>", "<0x9F>", "<0x9A>", "<0x80>"})
    EXPECT_EQ(stream.push(id(byte)), "");
  EXPECT_EQ(stream.push(id("\u2581the")), "\U0001f680 the");
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(id("\u2581the")), "the") << "after flush a new text begins";
}

}  // namespace
}  // namespace krait::tokenizer
