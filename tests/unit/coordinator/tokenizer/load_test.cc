// Files that are wrong: each is refused by name, none ends the process.
#include <gtest/gtest.h>

#include <random>

#include "common/base/limits.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

using nlohmann::json;

/// A small tokenizer with a part of most kinds.
json small() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true},
      {"id": 9, "content": "word", "single_word": true, "lstrip": true, "rstrip": true, "normalized": false,
       "special": false}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
      {"type": "Prepend", "prepend": "a"}, {"type": "Strip", "strip_left": true, "strip_right": false}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": true},
      {"type": "Split", "pattern": {"String": "x"}, "behavior": "MergedWithNext", "invert": false},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<s>", "continuing_subword_prefix": null, "fuse_unk": true,
      "byte_fallback": false, "ignore_merges": false,
      "vocab": {"<s>": 0, "a": 1, "b": 2, "_": 3, "ab": 4, "_ab": 5, "1": 6, "aa": 7},
      "merges": ["a b", ["_", "ab"], "a a"]}
  })");
}

Error error_of(const std::string& text) {
  const auto parsed = Tokenizer::parse(text);
  EXPECT_FALSE(parsed.ok()) << text.substr(0, 200);
  return parsed.ok() ? Error{} : parsed.error();
}

/// Expects a refusal whose message holds `named`, after `pointer` was given `value` (or was removed).
void expect_refused(const char* pointer, const json& value, Errc code, const char* named) {
  json file = small();
  file[json::json_pointer(pointer)] = value;
  const Error error = error_of(file.dump());
  EXPECT_EQ(error.code, code) << pointer << ": " << error.message;
  EXPECT_NE(error.message.find(named), std::string::npos) << pointer << ": " << error.message;
}

TEST(Load, TheSmallTokenizerWorks) {
  const auto parsed = Tokenizer::parse(small().dump());
  ASSERT_TRUE(parsed.ok()) << to_string(parsed.error());
  // "b" becomes "ab", then "_ab", cut behind the mark; "word" takes its spaces; "ab" becomes "aab", where a b come
  // first.
  EXPECT_EQ(encode(**parsed, "b  word ab", true), (std::vector<int32_t>{0, 3, 4, 9, 1, 4}));
  EXPECT_EQ((*parsed)->vocab_size(), 10);
  EXPECT_EQ((*parsed)->token_text(8), "") << "an id between that no token has";
}

TEST(Load, UnknownPartsAreRefusedByName) {
  const json unknown = {{"type", "Mystery"}};
  for (const char* part :
       {"/normalizer", "/normalizer/normalizers/1", "/pre_tokenizer", "/pre_tokenizer/pretokenizers/2",
        "/post_processor", "/decoder", "/decoder/decoders/0", "/model"}) {
    expect_refused(part, unknown, Errc::kUnsupported, "Mystery");
  }
  expect_refused("/model/dropout", 0.1, Errc::kUnsupported, "model (BPE).dropout");
  expect_refused("/model/continuing_subword_prefix", "##", Errc::kUnsupported, "continuing_subword_prefix");
  expect_refused("/pre_tokenizer/pretokenizers/2/behavior", "Sideways", Errc::kUnsupported, "behavior");
  expect_refused("/normalizer/normalizers/1/pattern/Regex", "(", Errc::kUnsupported, "pattern");
  expect_refused("/normalizer/normalizers/1/pattern/Regex", "(?R)", Errc::kUnsupported, "pattern");
}

TEST(Load, WrongValuesAreRefusedByName) {
  expect_refused("/model/vocab/ab", -1, Errc::kCorrupt, "vocab.ab");
  expect_refused("/model/vocab/ab", 1 << 30, Errc::kCorrupt, "vocab.ab");
  expect_refused("/model/vocab/ab", 18446744073709551615u, Errc::kCorrupt, "vocab.ab");
  expect_refused("/model/vocab/ab", 1.5, Errc::kCorrupt, "vocab.ab");
  expect_refused("/model/vocab/ab", 1, Errc::kCorrupt, "twice");
  expect_refused("/model/merges/0", "a c", Errc::kCorrupt, "merges[0]");
  expect_refused("/model/merges/0", "ab", Errc::kCorrupt, "merges[0]");
  expect_refused("/model/merges/1", json::array({"a"}), Errc::kCorrupt, "merges[1]");
  expect_refused("/model/unk_token", "nothing", Errc::kCorrupt, "unk_token");
  expect_refused("/model/vocab", nullptr, Errc::kCorrupt, "vocab");
  expect_refused("/added_tokens/1/id", 3, Errc::kCorrupt, "added_tokens[1]");
  expect_refused("/added_tokens/0/id", 12, Errc::kCorrupt, "added_tokens[0]");
  expect_refused("/added_tokens/1/content", 5, Errc::kCorrupt, "added_tokens[1].content");
  expect_refused("/added_tokens/1/content", "", Errc::kCorrupt, "added_tokens[1].content: is empty");
  expect_refused("/post_processor/special_tokens/<s>/ids", json::array({-1}), Errc::kCorrupt, "ids");
  expect_refused("/post_processor/special_tokens", json::object(), Errc::kCorrupt, "<s>");
  expect_refused("/decoder/decoders/3/start", -1, Errc::kCorrupt, "start");
  expect_refused("/pre_tokenizer/pretokenizers/3/replacement", "ab", Errc::kCorrupt, "replacement");
  for (const char* text :
       {"", "{", "[]", "null", "{}", "\xff", "{\"model\": {}}", "{\"model\": {\"type\": \"BPE\"}}"}) {
    EXPECT_EQ(error_of(text).code, Errc::kCorrupt) << text;
  }
}

TEST(Load, WhatStandsTwiceIsRefusedByName) {
  const std::string good = small().dump();
  const auto with = [&](const std::string& before, const std::string& more) {
    std::string text = good;
    return text.insert(text.find(before) + before.size(), more);
  };
  for (const auto& [text, name] : {std::pair{with("\"vocab\":{", "\"ab\":8,"), "'ab'"},
                                   {with("\"model\":{", "\"type\":\"BPE\","), "'type'"},
                                   {with("{", "\"model\":{},"), "'model'"}}) {
    const Error error = error_of(text);
    EXPECT_EQ(error.code, Errc::kCorrupt);
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  }
  EXPECT_EQ(error_of(good + std::string("\0", 1)).code, Errc::kCorrupt);
}

TEST(Load, AMergeCannotMakeWhatItMerges) {
  json file = small();
  file["model"]["vocab"][""] = 8;
  for (const json& merge : {json("a "), json(" a"), json::array({"a", ""}), json::array({"", ""})}) {
    file["model"]["merges"][0] = merge;
    const Error error = error_of(file.dump());
    EXPECT_EQ(error.code, Errc::kCorrupt);
    EXPECT_NE(error.message.find("merges[0]"), std::string::npos) << error.message;
  }
}

TEST(Load, OfEqualMergesTheLastCountsAsInTheReference) {
  json file = small();
  file["model"]["vocab"]["bb"] = 8;
  file["normalizer"] = file["pre_tokenizer"] = nullptr;
  const auto ids = [&](const json& merges) {
    file["model"]["merges"] = merges;
    return encode(*Tokenizer::parse(file.dump()).value(), "abb", false);
  };
  EXPECT_EQ(ids({"a b", "b b"}), (std::vector<int32_t>{4, 2}));
  EXPECT_EQ(ids({"a b", "b b", "a b"}), (std::vector<int32_t>{1, 8}));
}

TEST(Load, WhatIsAddedToATextMustBeATokenOfTheFile) {
  expect_refused("/post_processor/special_tokens/<s>/ids", json::array({8}), Errc::kCorrupt, "the id 8");
  expect_refused("/post_processor/special_tokens/<s>/ids", json::array({4'000'000}), Errc::kCorrupt, "the id 4000000");
}

TEST(Load, APatternThatTakesTooLongIsAnError) {
  const auto with = [](const std::string& pattern) {
    json file = small();
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    return Tokenizer::parse(file.dump()).value();
  };
  // One match that takes for ever, and one of many that each look ahead to the end.
  for (const auto& [pattern, text] : {std::pair<const char*, std::string>{"(a+a+)+b", std::string(60, 'a') + "cb"},
                                      {"a(?=[ab]*c|[ab]*b)|b", std::string(400'000, 'a') + "b"}}) {
    const auto ids = with(pattern)->encode(text, {});
    ASSERT_FALSE(ids.ok()) << pattern;
    EXPECT_EQ(ids.error().code, Errc::kInvalidArgument) << "it is the text that the pattern cannot match";
  }
}

TEST(Load, DepthIsBounded) {
  EXPECT_EQ(error_of(std::string(10'000'000, '[')).code, Errc::kCorrupt);
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < limits::kMaxTokenizerDepth + 2; ++i)
    nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
  expect_refused("/normalizer", nested, Errc::kCorrupt, "nested too deeply");
}

TEST(Load, FilesThatCannotBeReadAreNamed) {
  const auto missing = Tokenizer::load("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_NE(missing.error().message.find("/nonexistent/tokenizer.json"), std::string::npos);
  const test::ScratchDir folder;
  const auto directory = Tokenizer::load(folder.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, Errc::kIo);
  const std::string path = folder.write("other.json", R"({"model": {"type": "Mystery"}})");
  const auto strange = Tokenizer::load(path);
  ASSERT_FALSE(strange.ok());
  EXPECT_TRUE(strange.error().message.starts_with(path + ": model")) << strange.error().message;
}

/// Whatever loads must also work, or answer with an error.
void use(const std::string& text, int& loaded) {
  const auto parsed = Tokenizer::parse(text);
  if (!parsed.ok()) {
    ASSERT_FALSE(parsed.error().message.empty());
    return;
  }
  ++loaded;
  for (const bool parse_special : {false, true}) {
    const auto ids = (*parsed)->encode("<s>ab_ word 12\u00e9 x!?", {.parse_special = parse_special});
    if (ids.ok()) (*parsed)->decode(*ids, false);
  }
  for (int32_t id = -1; id < 12; ++id)
    (*parsed)->token_text(id);
}

TEST(Load, EveryFieldWithEveryOtherType) {
  const json flat = small().flatten();
  const std::vector<json> others{nullptr,
                                 true,
                                 0,
                                 -1,
                                 2.5,
                                 1e300,
                                 "",
                                 "a",
                                 "\u2581",
                                 json::array(),
                                 json::object(),
                                 json::array({json::object()}),
                                 18446744073709551615u};
  std::set<std::string> pointers;
  for (const auto& [pointer, value] : flat.items()) {
    for (json::json_pointer at(pointer); !at.empty(); at.pop_back())
      pointers.insert(at.to_string());
  }
  int loaded = 0;
  for (const std::string& pointer : pointers) {
    const json::json_pointer at(pointer);
    for (const json& other : others) {
      json file = small();
      file[at] = other;
      use(file.dump(), loaded);
    }
    json file = small();
    json& parent = file[at.parent_pointer()];
    if (parent.is_object()) parent.erase(at.back());
    use(file.dump(), loaded);
  }
  EXPECT_GT(pointers.size(), 80u);
  EXPECT_GT(loaded, 50) << "some values are harmless";
}

TEST(Load, BytesChangedAtRandom) {
  const std::string good = small().dump();
  std::mt19937 random(11);
  int loaded = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string text = good;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default:
          text[at] = "0123456789{}[],:\"\\-"[random() % 19];
      }
      if (text.empty()) text.assign(1, '{');
    }
    use(text, loaded);
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace krait::tokenizer
