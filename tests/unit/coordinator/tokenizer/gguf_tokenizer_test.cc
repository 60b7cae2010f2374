// What a GGUF file may hold in place of a tokenizer. That sound ones are equal to the published tokenizers is shown
// over files of another writer: tests/cluster/test_gguf.py.
#include "coordinator/tokenizer/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/golden.h"

namespace krait::tokenizer {
namespace {

using test::gguf_bytes;

template <class Number>
std::string array_of(GgufType element, const std::vector<Number>& numbers) {
  std::string bytes = gguf_bytes(static_cast<uint32_t>(element)) + gguf_bytes<uint64_t>(numbers.size());
  for (const Number number : numbers)
    bytes += gguf_bytes(number);
  return bytes;
}

/// A tokenizer as a file has it; a test changes what it is about.
struct Given final {
  std::string kind = "gpt2";
  std::string pre = "mpt";
  std::vector<std::string> tokens{"a", "b", "ab", "<s>", "[PAD4]", "\u0120"};
  std::vector<int32_t> types{1, 1, 1, 3, 5, 1};
  std::vector<std::string> merges{"a b"};
  std::vector<float> scores;
  int add_bos = -1;  // not said
  int bos = -1;      // not said

  Result<std::shared_ptr<const Tokenizer>> load() const {
    test::GgufWriter writer;
    writer.text("tokenizer.ggml.model", kind).texts("tokenizer.ggml.tokens", tokens);
    if (!pre.empty()) writer.text("tokenizer.ggml.pre", pre);
    if (!types.empty()) writer.key("tokenizer.ggml.token_type", GgufType::kArray, array_of(GgufType::kI32, types));
    if (!merges.empty()) writer.texts("tokenizer.ggml.merges", merges);
    if (!scores.empty()) writer.key("tokenizer.ggml.scores", GgufType::kArray, array_of(GgufType::kF32, scores));
    if (add_bos >= 0) writer.flag("tokenizer.ggml.add_bos_token", add_bos == 1);
    if (bos >= 0) writer.integer("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
    const test::ScratchDir folder;
    return load_gguf_tokenizer(*GgufFile::open(folder.write("m.gguf", writer.file())).value());
  }
  /// Of a file that must be refused.
  std::string error() const {
    const auto loaded = load();
    if (loaded.ok()) return "nothing";
    EXPECT_NE(loaded.error().message.find("m.gguf: "), std::string::npos) << loaded.error().message;
    return loaded.error().message;
  }
};

Given pieces() {
  return {.kind = "llama",
          .pre = "default",
          .tokens = {"<unk>", "<s>", "a", "b", "ab", "\u2581", "\u2581a", "\u2581ab"},
          .types = {2, 3, 1, 1, 1, 1, 1, 1},
          .merges = {},
          .scores = {0, 0, -9, -9, -2, -9, -1, -3}};
}

std::vector<int32_t> ids_of(const Given& given, std::string_view text, bool special = false) {
  const auto tokenizer = given.load();
  EXPECT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
  return (*tokenizer)->encode(text, {.add_special_tokens = special}).value();
}

TEST(GgufTokenizer, ByteLevelTokensAreMerged) {
  EXPECT_EQ(ids_of({}, "ab<s>a"), (std::vector<int32_t>{2, 3, 0}));
  const auto tokenizer = Given{}.load().value();
  EXPECT_TRUE(tokenizer->is_special(3));
  EXPECT_FALSE(tokenizer->is_special(2));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{2, 4, 5}, false), "ab ") << "an unused token has no text";
}

TEST(GgufTokenizer, TheBestScoreIsMergedFirst) {
  // "\u2581a" is better than "ab", so that "b" is left over, and "\u2581ab" is made of both.
  EXPECT_EQ(ids_of(pieces(), "ab"), (std::vector<int32_t>{7}));
  Given other = pieces();
  other.scores[7] = -1000;
  other.tokens[7] = "unused";
  EXPECT_EQ(ids_of(other, "ab"), (std::vector<int32_t>{6, 3}));
  other.scores[4] = 0;
  EXPECT_EQ(ids_of(other, "ab"), (std::vector<int32_t>{5, 4}));
  EXPECT_EQ(pieces().load().value()->decode(std::vector<int32_t>{7, 6}, false), "ab a");
}

TEST(GgufTokenizer, ABeginningIsAddedByDefaultToPiecesAlone) {
  Given given = pieces();
  EXPECT_EQ(ids_of(given, "a", true), (std::vector<int32_t>{6})) << "there is none to add";
  given.bos = 1;
  EXPECT_EQ(ids_of(given, "a", true), (std::vector<int32_t>{1, 6}));
  given.add_bos = 0;
  EXPECT_EQ(ids_of(given, "a", true), (std::vector<int32_t>{6}));
  Given bytes{.bos = 3};
  EXPECT_EQ(ids_of(bytes, "a", true), (std::vector<int32_t>{0}));
  bytes.add_bos = 1;
  EXPECT_EQ(ids_of(bytes, "a", true), (std::vector<int32_t>{3, 0}));
}

TEST(GgufTokenizer, AFileMayHaveNone) {
  const test::ScratchDir folder;
  const auto file = GgufFile::open(folder.write("m.gguf", test::GgufWriter().file())).value();
  EXPECT_EQ(load_gguf_tokenizer(*file).value(), nullptr);
  EXPECT_EQ((Given{.kind = "no_vocab"}.load().value()), nullptr);
}

TEST(GgufTokenizer, WhatIsWrongIsNamedByItsKey) {
  const auto expect = [](const Given& given, std::string_view words) {
    EXPECT_NE(given.error().find(words), std::string::npos) << given.error();
  };
  expect({.kind = "bert"}, "key 'tokenizer.ggml.model' is 'bert'; gpt2 and llama are served; --tokenizer FILE");
  expect({.pre = "llama-bpe"}, "key 'tokenizer.ggml.pre' is 'llama-bpe'; of gpt2's these are served: mpt, olmo");
  expect({.pre = ""}, "key 'tokenizer.ggml.pre' is missing");
  expect({.tokens = {}, .types = {}}, "key 'tokenizer.ggml.tokens' has no tokens");
  expect({.types = {1}}, "key 'tokenizer.ggml.token_type' has 1 types of 6 tokens");
  expect({.types = {1, 1, 1, 7, 1, 1}}, "key 'tokenizer.ggml.token_type' has the type 7 of token 3");
  expect({.tokens = {"a", "\xff", "ab", "<s>", "c", "d"}}, "has a token 1 that is not UTF-8");
  expect({.tokens = {"a", "b", "ab", "<s>", "c", "a"}}, "has token 5 twice");
  expect({.merges = {"a \xff"}}, "key 'tokenizer.ggml.merges' has one that is not UTF-8");
  expect({.merges = {"a c"}}, "its tokenizer: model");
  expect({.add_bos = 1}, "key 'tokenizer.ggml.bos_token_id' is no token's id");
  expect({.add_bos = 1, .bos = 6}, "key 'tokenizer.ggml.bos_token_id' is no token's id");
  expect({.add_bos = 1, .bos = 4}, "which no token has");
  Given few = pieces();
  few.scores.pop_back();
  expect(few, "key 'tokenizer.ggml.scores' has 7 scores of 8 tokens");
  Given longer = pieces();
  longer.tokens[7] = std::string(static_cast<size_t>(limits::kMaxScoredTokenBytes) + 1, 'a');
  expect(longer, "has token 7 of 513 bytes, more than 512");
}

}  // namespace
}  // namespace krait::tokenizer
