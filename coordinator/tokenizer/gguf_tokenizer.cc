#include "coordinator/tokenizer/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "common/base/limits.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kMark = "\u2581";  // SentencePiece's space

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// A pipeline before the merges, by the names that llama.cpp's converter gives it.
struct Pipeline final {
  std::string_view pre;
  const char* normalizer;
  const char* pre_tokenizer;
};
constexpr const char* kGpt2Words =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
constexpr const char* kFalconWords = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    {"type": "Digits", "individual_digits": false},
    {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false}]})";
// GPT-NeoX, whose tokenizer MPT and OLMo have, normalizes; GPT-2 does not.
constexpr auto kPipelines = std::to_array<Pipeline>({{"mpt", R"({"type": "NFC"})", kGpt2Words},
                                                     {"olmo", R"({"type": "NFC"})", kGpt2Words},
                                                     {"gpt-2", "null", kGpt2Words},
                                                     {"falcon", "null", kFalconWords}});

struct Vocabulary final {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;  // of each
};

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary found;
  ASSIGN_OR_RETURN(found.tokens, file.texts(kTokensKey));
  ASSIGN_OR_RETURN(found.types, file.integers(kTypesKey));
  if (found.tokens.empty()) return file.fault(kTokensKey, "has no tokens");
  if (found.tokens.size() > static_cast<size_t>(limits::kMaxVocab)) {
    return file.fault(kTokensKey, fmt::format("has {} tokens, more than {}", found.tokens.size(), limits::kMaxVocab));
  }
  if (found.types.empty()) found.types.assign(found.tokens.size(), kNormal);
  if (found.types.size() != found.tokens.size()) {
    return file.fault(kTypesKey, fmt::format("has {} types of {} tokens", found.types.size(), found.tokens.size()));
  }
  for (size_t i = 0; i < found.tokens.size(); ++i) {
    if (!is_utf8(found.tokens[i])) return file.fault(kTokensKey, fmt::format("has a token {} that is not UTF-8", i));
    if (found.types[i] < kNormal || found.types[i] > kByte) {
      return file.fault(kTypesKey, fmt::format("has the type {} of token {}", found.types[i], i));
    }
  }
  return found;
}

/// Those that are found whole in a text, before anything is merged. Converters leave out which of them are looked for
/// in normalized text: in byte-level vocabularies those that are not special are.
Json added_tokens(const Vocabulary& vocabulary, bool normalized) {
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int64_t type = vocabulary.types[id];
    if ((type != kControl && type != kUserDefined && type != kUnknown) || vocabulary.tokens[id].empty()) continue;
    const bool special = type != kUserDefined;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", normalized && !special},
                     {"special", special}});
  }
  return added;
}

/// Tokens of these types with their ids.
Result<Json> vocab_object(const GgufFile& file, const Vocabulary& vocabulary, std::initializer_list<int64_t> types) {
  Json vocab = Json::object();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (std::find(types.begin(), types.end(), vocabulary.types[id]) == types.end()) continue;
    if (!vocab.emplace(vocabulary.tokens[id], id).second) {
      return file.fault(kTokensKey, fmt::format("has token {} twice", id));
    }
  }
  return vocab;
}

/// Merges that make each token out of two others, best score first, as SentencePiece merges. Of one token: the longer
/// left part first.
Result<Json> merges_by_score(const GgufFile& file, const Vocabulary& vocabulary) {
  struct Merge final {
    double score;
    std::string_view left, right;
  };
  ASSIGN_OR_RETURN(const std::vector<double> scores, file.numbers(kScoresKey));
  if (scores.size() != vocabulary.tokens.size()) {
    return file.fault(kScoresKey, fmt::format("has {} scores of {} tokens", scores.size(), vocabulary.tokens.size()));
  }
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == kNormal) ids.emplace(vocabulary.tokens[id], id);
  }
  std::vector<Merge> merges;
  for (const auto& [text, id] : ids) {
    if (text.size() > static_cast<size_t>(limits::kMaxScoredTokenBytes)) {
      return file.fault(kTokensKey, fmt::format("has token {} of {} bytes, more than {}", id, text.size(),
                                                limits::kMaxScoredTokenBytes));
    }
    for (size_t cut = text.empty() ? 0 : utf8_length(text[0]); cut < text.size(); cut += utf8_length(text[cut])) {
      const std::string_view left = text.substr(0, cut), right = text.substr(cut);
      if (ids.contains(left) && ids.contains(right)) merges.push_back({scores[id], left, right});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left.size() != b.left.size()) return a.left.size() > b.left.size();
    return std::tie(a.left, a.right) < std::tie(b.left, b.right);
  });
  if (merges.size() > static_cast<size_t>(limits::kMaxVocab)) return file.fault(kTokensKey, "makes too many merges");
  Json list = Json::array();
  for (const Merge& merge : merges)
    list.push_back({merge.left, merge.right});
  return list;
}

Result<Json> byte_level(const GgufFile& file, const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const auto pre, file.text(kPreKey));
  const auto pipeline =
      std::find_if(kPipelines.begin(), kPipelines.end(), [&](const Pipeline& line) { return line.pre == pre; });
  if (pipeline == kPipelines.end()) {
    std::string known;
    for (const Pipeline& line : kPipelines)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", line.pre);
    return Error{Errc::kUnsupported,
                 fmt::format("{}: key '{}' {}; of gpt2's these are served: {}; --tokenizer FILE gives another "
                             "tokenizer.json",
                             file.name(), kPreKey, pre ? fmt::format("is '{:.64}'", *pre) : "is missing", known),
                 std::string(kPreKey)};
  }
  ASSIGN_OR_RETURN(const auto merges, file.texts("tokenizer.ggml.merges"));
  for (const std::string& merge : merges) {
    if (!is_utf8(merge)) return file.fault("tokenizer.ggml.merges", "has one that is not UTF-8");
  }
  ASSIGN_OR_RETURN(Json vocab, vocab_object(file, vocabulary, {kNormal, kByte}));
  return Json{{"normalizer", Json::parse(pipeline->normalizer)},
              {"pre_tokenizer", Json::parse(pipeline->pre_tokenizer)},
              {"decoder", Json::parse(kGpt2Words)},
              {"added_tokens", added_tokens(vocabulary, true)},
              {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", merges}}}};
}

Result<Json> sentence_piece(const GgufFile& file, const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const auto prefix, file.boolean("tokenizer.ggml.add_space_prefix"));
  Json normalizers = Json::array();
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (prefix.value_or(true)) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
  ASSIGN_OR_RETURN(Json vocab, vocab_object(file, vocabulary, {kNormal, kByte, kUnknown, kControl}));
  ASSIGN_OR_RETURN(Json merges, merges_by_score(file, vocabulary));
  Json model{{"type", "BPE"},
             {"vocab", std::move(vocab)},
             {"merges", std::move(merges)},
             {"byte_fallback", true},
             {"fuse_unk", true}};
  const auto unknown = std::find(vocabulary.types.begin(), vocabulary.types.end(), kUnknown);
  if (unknown != vocabulary.types.end()) {
    model["unk_token"] = vocabulary.tokens[static_cast<size_t>(unknown - vocabulary.types.begin())];
  }
  return Json{{"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
              {"pre_tokenizer", nullptr},
              {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}},
              {"added_tokens", added_tokens(vocabulary, false)},
              {"model", std::move(model)}};
}

/// Puts what the file has around a text: bos unless it says no where `bos_by_default`, eos where it says so.
Status add_post_processor(const GgufFile& file, const Vocabulary& vocabulary, bool bos_by_default, Json& tokenizer) {
  const auto piece = [](const char* kind, const std::string& id) {
    Json named = Json::object();
    named[kind] = {{"id", id}, {"type_id", 0}};
    return named;
  };
  Json single = Json::array();
  single.push_back(piece("Sequence", "A"));
  Json specials = Json::object();
  for (const bool begin : {true, false}) {
    const std::string name = begin ? "bos" : "eos";
    ASSIGN_OR_RETURN(const auto wanted, file.boolean(fmt::format("tokenizer.ggml.add_{}_token", name)));
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    ASSIGN_OR_RETURN(const auto id, file.integer(key));
    if (!wanted.value_or(begin && bos_by_default && id.has_value())) continue;
    if (!id || *id < 0 || *id >= std::ssize(vocabulary.tokens)) {
      return file.fault(key, "is no token's id, but the token is to be added");
    }
    single.insert(begin ? single.begin() : single.end(), piece("SpecialToken", name));
    specials[name]["ids"] = std::vector<int64_t>{*id};
  }
  if (!specials.empty()) {
    tokenizer["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", specials}};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_gguf_tokenizer(const GgufFile& file) try {
  constexpr std::string_view kPlainName = "tokenizer.json";
  ASSIGN_OR_RETURN(const auto kind, file.text(kModelKey));
  if (!kind || *kind == "no_vocab" || *kind == "none") return std::shared_ptr<const Tokenizer>();
  if (*kind != "gpt2" && *kind != "llama") {
    return Error{Errc::kUnsupported,
                 fmt::format("{}: key '{}' is '{:.64}'; gpt2 and llama are served; --tokenizer FILE gives another "
                             "tokenizer.json",
                             file.name(), kModelKey, *kind),
                 std::string(kModelKey)};
  }
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, read_vocabulary(file));
  const bool pieces = *kind == "llama";
  ASSIGN_OR_RETURN(Json json, pieces ? sentence_piece(file, vocabulary) : byte_level(file, vocabulary));
  RETURN_IF_ERROR(add_post_processor(file, vocabulary, pieces, json));
  RETURN_IF_ERROR(file.check_unchanged());
  auto parsed = Tokenizer::parse(json.dump());
  if (parsed.ok()) return parsed;
  std::string_view what = parsed.error().message;
  if (what.starts_with(kPlainName)) what.remove_prefix(kPlainName.size());
  return Error{parsed.error().code, fmt::format("{}: its tokenizer{}", file.name(), what), parsed.error().param};
} catch (const std::exception& problem) {
  return Error{Errc::kResourceExhausted,
               fmt::format("{}: its tokenizer cannot be loaded: {}", file.name(), problem.what()), ""};
}

}  // namespace krait::tokenizer
