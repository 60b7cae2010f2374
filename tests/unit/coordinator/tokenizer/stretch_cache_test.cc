// With a cache of stretches the ids are those of the whole text, and only what is new is tokenized.
#include "coordinator/tokenizer/stretch_cache.h"

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/draws.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;

/// Texts that grow as a conversation does: pieces of ordinary text with added tokens between them, or none.
class Chats final {
 public:
  Chats(uint64_t seed, std::vector<std::string> texts, const nlohmann::json& added_tokens)
      : random_(seed), texts_(std::move(texts)) {
    for (const auto& token : added_tokens)
      separators_.push_back(token["content"].get<std::string>());
    for (const char* plain : {"", " ", "\n", "  ", "\u0301", "e\u0301"})
      separators_.emplace_back(plain);
  }

  /// Appends a turn to `text`, sometimes as words of a user.
  void grow(std::string& text, std::vector<ByteRange>& untrusted) {
    text += pick(separators_);
    const size_t begin = text.size();
    text += pick(texts_).substr(0, 400);
    while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0xC0) == 0x80)
      text.pop_back();
    if (!text.empty() && static_cast<uint8_t>(text.back()) >= 0xC0) text.pop_back();
    if (chance() && text.size() > begin) untrusted.push_back({begin, text.size()});
    if (chance()) text += pick(separators_);
  }

  bool chance() { return random_() % 2 == 0; }

 private:
  const std::string& pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }

  std::mt19937_64 random_;
  const std::vector<std::string> texts_;
  std::vector<std::string> separators_;
};

/// Sends growing chats with and without a cache; returns how many texts were compared.
size_t compare_chats(const Tokenizer& tokenizer, Chats chats, int rounds, const std::string& name) {
  StretchCache cache(kPlenty);
  StretchCache small(20'000);
  size_t compared = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string text;
    std::vector<ByteRange> untrusted;
    for (int turn = 0; turn < 8; ++turn) {
      chats.grow(text, untrusted);
      Tokenizer::EncodeOptions options{chats.chance(), chats.chance(), {}};
      if (chats.chance()) options.untrusted = untrusted;
      const auto whole = tokenizer.encode(text, options);
      for (StretchCache* each : {&cache, &small, &cache}) {
        options.cache = each;
        const auto cached = tokenizer.encode(text, options);
        EXPECT_TRUE(whole.ok() ? cached.ok() && *whole == *cached : !cached.ok()) << name << ": " << text;
        ++compared;
      }
      if (testing::Test::HasFailure()) return compared;
    }
  }
  EXPECT_LE(small.counts().held_bytes, 20'000) << name;
  EXPECT_GT(cache.counts().found_bytes, cache.counts().encoded_bytes / 2) << name;
  return compared;
}

std::vector<std::string> texts_of(const std::vector<nlohmann::json>& cases) {
  std::vector<std::string> texts;
  for (const auto& one : cases)
    texts.push_back(one["text"].get<std::string>());
  return texts;
}

TEST(StretchCache, EveryPipelineGivesTheIdsOfTheWhole) {
  const int rounds = test::draws({.usual = 12, .sanitized = 3, .long_run = 200});
  size_t compared = 0;
  uint64_t seed = 1;
  for (const auto& line : read_json_lines("pipelines.jsonl")) {
    const auto tokenizer = Tokenizer::parse(line["tokenizer"].dump()).value();
    const std::vector<nlohmann::json> cases(line["cases"].begin(), line["cases"].end());
    Chats chats(++seed, texts_of(cases), line["tokenizer"].value("added_tokens", nlohmann::json::array()));
    compared += compare_chats(*tokenizer, std::move(chats), rounds, line["name"].get<std::string>());
  }
  EXPECT_EQ(compared, kPipelines * static_cast<size_t>(rounds) * 24u);
}

TEST(StretchCache, EveryVocabularyGivesTheIdsOfTheWhole) {
  const int rounds = test::draws({.usual = 60, .sanitized = 6, .long_run = 1000});
  for (const char* name : {"gpt-neox", "falcon", "mistral"}) {
    std::ifstream file(test::golden_path(fmt::format("tokenizers/{}.json", name)));
    const auto added = nlohmann::json::parse(file)["added_tokens"];
    Chats chats(7, texts_of(read_json_lines(fmt::format("{}.cases.jsonl", name))), added);
    compare_chats(*load_golden(name), std::move(chats), rounds, name);
  }
}

TEST(StretchCache, AStretchIsKeptWithWhatItsIdsDependOn) {
  const auto lines = read_json_lines("pipelines.jsonl");
  const auto line =
      std::find_if(lines.begin(), lines.end(), [](const auto& each) { return each["name"] == "Metaspace first"; });
  ASSERT_NE(line, lines.end());
  auto json = (*line)["tokenizer"];
  json["added_tokens"].back()["normalized"] = true;  // </s> is looked for within stretches, then
  const auto tokenizer = Tokenizer::parse(json.dump()).value();
  const std::string text = "a stretch with </s> in it";
  const ByteRange whole{0, text.size()};
  // At the beginning of the input a space is put before it; special tokens are text where it is a user's.
  const std::vector<std::pair<std::string, Tokenizer::EncodeOptions>> each = {
      {text, {false, true, {}}},
      {"<s>" + text, {false, true, {}}},
      {text, {false, true, std::span(&whole, 1)}},
      {text, {false, false, {}}},
  };
  StretchCache cache(kPlenty);
  std::set<std::vector<int32_t>> different;
  for (int round = 0; round < 2; ++round) {
    for (auto [input, options] : each) {
      const auto ids = tokenizer->encode(input, options).value();
      options.cache = &cache;
      EXPECT_EQ(tokenizer->encode(input, options).value(), ids) << input;
      different.insert(ids);
    }
  }
  EXPECT_EQ(different.size(), 3u) << "the last two are the same";
}

TEST(StretchCache, AChatThatIsSentAgainCostsOnlyWhatIsNew) {
  const auto tokenizer = load_golden("gpt-neox");
  StretchCache cache(kPlenty);
  std::string chat;
  std::string message;
  for (int turn = 0; turn < 400; ++turn) {
    message = fmt::format("<|user|>\nMessage {} of a long conversation: ", turn);
    for (int word = 0; word < 250; ++word)
      message += fmt::format("word{} ", turn * word % 1009);
    chat += message + "<|endoftext|>";
  }
  const Tokenizer::EncodeOptions options{false, true, {}, &cache};
  const auto first = tokenizer->encode(chat, options).value();
  EXPECT_GT(first.size(), 100'000u);
  const auto before = cache.counts();
  const std::string more = "And now?";
  const auto second = tokenizer->encode(chat + more, options).value();
  EXPECT_EQ(cache.counts().encoded_bytes - before.encoded_bytes, more.size());
  EXPECT_EQ(cache.counts().found_bytes - before.found_bytes, chat.size() - 400 * std::string("<|endoftext|>").size());
  EXPECT_EQ(second, tokenizer->encode(chat + more, {false, true}).value());
}

TEST(StretchCache, MemoryIsBoundedAndWhatIsUsedStays) {
  StretchCache cache(40'000);
  const std::vector<int32_t> ids(10, 7);
  const auto key = [](const std::string& text) { return StretchCache::Key{text, {}, false, true}; };
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i)
    texts.push_back(fmt::format("a text with the number {:04}", i));
  std::vector<int32_t> out;
  for (const std::string& text : texts) {
    cache.put(key(text), ids);
    EXPECT_TRUE(cache.find(key(texts[0]), out));
    EXPECT_LE(cache.counts().held_bytes, 40'000);
  }
  EXPECT_FALSE(cache.find(key(texts[1]), out));
  EXPECT_TRUE(cache.find(key(texts.back()), out));
  out.clear();
  EXPECT_TRUE(cache.find(key(texts[0]), out));
  EXPECT_EQ(out, ids);
  // One that would push out everything else is not kept, nor one that is found later than made.
  const std::string large(10'000, 'x');
  cache.put(key(large), ids);
  cache.put(key("short"), ids);
  EXPECT_FALSE(cache.find(key(large), out));
  EXPECT_FALSE(cache.find(key("short"), out));
  EXPECT_TRUE(cache.find(key(texts[0]), out));
  // Stored anew it takes its place once.
  const int64_t held = cache.counts().held_bytes;
  cache.put(key(texts[0]), ids);
  EXPECT_EQ(cache.counts().held_bytes, held);
}

}  // namespace
}  // namespace krait::tokenizer
