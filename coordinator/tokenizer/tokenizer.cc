#include "coordinator/tokenizer/tokenizer.h"

#include <algorithm>
#include <exception>
#include <new>

#include "common/base/file.h"
#include "common/base/json_text.h"
#include "coordinator/tokenizer/tokenizer_parts.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

constexpr std::string_view kFileName = "tokenizer.json";
constexpr size_t kKeepScratchBelowBytes = 1024 * 1024;  // longer texts leave buffers that are not worth keeping

/// Enters the added tokens into `parts`; the model, the normalizer and `parts.tokens` are there already.
Status enter_added_tokens(const std::vector<AddedToken>& added, AddedTokenMatcher& raw, AddedTokenMatcher& normalized,
                          const Model& model, const Normalizer* normalizer, std::vector<std::string>& tokens,
                          std::vector<bool>& special, std::unordered_map<std::string, int32_t>& ids) {
  RegexScratch scratch;
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const Where where{fmt::format("added_tokens[{}]", i), 0};
    const auto place = static_cast<size_t>(token.id);
    if (place >= tokens.size()) {
      tokens.resize(place + 1);
      special.resize(place + 1);
    }
    const std::optional<int32_t> model_id = model.token_to_id(token.content);
    const auto [known, is_new] = ids.emplace(token.content, token.id);
    if ((model_id && *model_id != token.id) || known->second != token.id) {
      return corrupt(where, fmt::format("has id {}, but its text already has another id", token.id));
    }
    if (!tokens[place].empty() && tokens[place] != token.content) {
      return corrupt(where, fmt::format("has id {}, which another token has", token.id));
    }
    if (token.special) special[place] = true;
    if (!is_new) continue;
    std::string as_seen = token.content;
    if (token.normalized && normalizer != nullptr) {
      if (const Status normal = normalizer->apply(as_seen, scratch); !normal.ok()) {
        return corrupt(where, "cannot be normalized: " + normal.error().message);
      }
    }
    (token.normalized ? normalized : raw).add(token, as_seen);
    // A token that is looked for in normalized text also decodes to its normalized form, as in the reference library.
    tokens[place] = std::move(as_seen);
  }
  return {};
}

/// Every id that a post-processor puts around a text has a token.
Status check_what_is_added(const PostProcessor* post_processor, const std::vector<std::string>& tokens) {
  std::vector<int32_t> ids;
  if (post_processor != nullptr) post_processor->apply(ids);
  for (const int32_t id : ids) {
    const auto place = static_cast<size_t>(id);
    if (place < tokens.size() && !tokens[place].empty()) continue;
    return corrupt({"post_processor", 0}, fmt::format("adds the id {}, which no token has", id));
  }
  return {};
}

/// The parts of some ascending ranges that lie in [begin, end), counted from `begin`.
std::vector<ByteRange> within(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  std::vector<ByteRange> out;
  auto range =
      std::upper_bound(ranges.begin(), ranges.end(), begin, [](size_t at, const ByteRange& r) { return at < r.end; });
  for (; range != ranges.end() && range->begin < end; ++range)
    out.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  return out;
}

/// Ids of a stretch of text without added tokens.
Status encode_words(const PreTokenizer* pre_tokenizer, const Model& model, std::string text, bool at_start,
                    Scratch& scratch, std::vector<int32_t>& out) {
  if (text.empty()) return {};
  Pieces pieces{std::move(text), {}, at_start};
  pieces.spans.push_back({0, pieces.text.size()});
  if (pre_tokenizer != nullptr) RETURN_IF_ERROR(pre_tokenizer->apply(pieces, scratch.regex));
  for (const Pieces::Span& span : pieces.spans)
    model.encode_word(pieces.view(span), scratch, out);
  return {};
}

}  // namespace

Status Tokenizer::Parts::encode_stretch(const StretchCache::Key& key, Scratch& scratch,
                                        std::vector<int32_t>& out) const {
  std::string normal(key.text);
  if (normalizer) RETURN_IF_ERROR(normalizer->apply(normal, scratch.regex));
  // Where the normalizer changed the text, places in it are no longer known: nothing there is taken on trust.
  const bool moved = !key.untrusted.empty() && normal != key.text;
  std::vector<AddedTokenMatcher::Segment> segments;
  normalized_matcher.split(normal, key.parse_special && !moved, key.untrusted, segments);
  for (const auto& segment : segments) {
    if (segment.token >= 0) {
      out.push_back(segment.token);
      continue;
    }
    RETURN_IF_ERROR(encode_words(pre_tokenizer.get(), *model, normal.substr(segment.begin, segment.end - segment.begin),
                                 key.at_start && segment.begin == 0, scratch, out));
  }
  return {};
}

std::unique_ptr<Scratch> ScratchPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<Scratch>();
}

void ScratchPool::give_back(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < static_cast<size_t>(limits::kMaxIdleTokenizerScratches)) idle_.push_back(std::move(scratch));
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& tokenizer_json) try {
  ASSIGN_OR_RETURN(const std::string text, read_text_file(tokenizer_json.native(), limits::kMaxTokenizerBytes));
  auto parsed = parse(text);
  if (parsed.ok()) return parsed;
  // parse() knows the file by its usual name only.
  std::string_view what = parsed.error().message;
  if (what.starts_with(kFileName)) what.remove_prefix(kFileName.size());
  return Error{parsed.error().code, fmt::format("{}{}", tokenizer_json.native(), what), parsed.error().param};
} catch (const std::exception& problem) {
  return Error{Errc::kIo, fmt::format("{} cannot be read: {}", tokenizer_json.native(), problem.what()), ""};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view text) try {
  const Where top{"file", 0};
  if (text.size() > static_cast<size_t>(limits::kMaxTokenizerBytes)) {
    return Error{Errc::kTooLarge, fmt::format("tokenizer.json is larger than {} bytes", limits::kMaxTokenizerBytes),
                 ""};
  }
  ASSIGN_OR_RETURN(const Json json, parse_json_object(text, kFileName, limits::kMaxTokenizerBytes));

  auto parts = std::make_unique<Parts>();
  if (const Json* normalizer = find_field(json, "normalizer")) {
    ASSIGN_OR_RETURN(parts->normalizer, make_normalizer(*normalizer, {"normalizer", 0}));
  }
  if (const Json* pre_tokenizer = find_field(json, "pre_tokenizer")) {
    ASSIGN_OR_RETURN(parts->pre_tokenizer, make_pre_tokenizer(*pre_tokenizer, {"pre_tokenizer", 0}));
  }
  ASSIGN_OR_RETURN(const Json* model, field(json, "model", top));
  ASSIGN_OR_RETURN(parts->model, make_model(*model, {"model", 0}));
  if (const Json* post_processor = find_field(json, "post_processor")) {
    ASSIGN_OR_RETURN(parts->post_processor, make_post_processor(*post_processor, {"post_processor", 0}));
  }
  ASSIGN_OR_RETURN(parts->decoder, make_decoder(find_field(json, "decoder"), {"decoder", 0}));

  parts->tokens = parts->model->tokens();
  parts->special.resize(parts->tokens.size());
  ASSIGN_OR_RETURN(const std::vector<AddedToken> added, read_added_tokens(json));
  RETURN_IF_ERROR(enter_added_tokens(added, parts->raw_matcher, parts->normalized_matcher, *parts->model,
                                     parts->normalizer.get(), parts->tokens, parts->special, parts->added_ids));
  RETURN_IF_ERROR(check_what_is_added(parts->post_processor.get(), parts->tokens));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::exception& problem) {
  // Memory that runs out, mostly; nothing that the file says can be left unnamed above.
  return Error{Errc::kResourceExhausted, fmt::format("tokenizer.json cannot be loaded: {}", problem.what()), ""};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const try {
  if (text.size() > static_cast<size_t>(limits::kMaxEncodeBytes)) {
    return Error{Errc::kTooLarge, fmt::format("a text may have {} bytes", limits::kMaxEncodeBytes), ""};
  }
  if (!is_utf8(text)) return Error{Errc::kInvalidArgument, "the text is not valid UTF-8", ""};
  const Parts& parts = *parts_;
  std::unique_ptr<Scratch> scratch = parts.scratches.take();
  scratch->regex.begin_text(text.size());
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  std::vector<AddedTokenMatcher::Segment> stretches;
  parts.raw_matcher.split(text, options.parse_special, options.untrusted, stretches);
  for (const auto& stretch : stretches) {
    if (stretch.token >= 0) {
      ids.push_back(stretch.token);
      continue;
    }
    const auto untrusted = within(options.untrusted, stretch.begin, stretch.end);
    const StretchCache::Key key{text.substr(stretch.begin, stretch.end - stretch.begin), untrusted, stretch.begin == 0,
                                options.parse_special};
    if (options.cache != nullptr && options.cache->find(key, ids)) continue;
    const size_t begin = ids.size();
    RETURN_IF_ERROR(parts.encode_stretch(key, *scratch, ids));
    if (options.cache != nullptr) options.cache->put(key, std::span(ids).subspan(begin));
  }
  if (options.add_special_tokens && parts.post_processor) parts.post_processor->apply(ids);
  if (text.size() < kKeepScratchBelowBytes) parts.scratches.give_back(std::move(scratch));
  return ids;
} catch (const std::exception& problem) {
  return Error{Errc::kResourceExhausted, fmt::format("the text cannot be encoded: {}", problem.what()), ""};
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  DecodeChain chain(*parts_->decoder);
  for (const int32_t id : ids) {
    const std::string_view token = parts_->decodable(id, skip_special_tokens);
    if (!token.empty()) chain.push(token);
  }
  chain.finish();
  return chain.take();
}

int64_t Tokenizer::vocab_size() const {
  return static_cast<int64_t>(parts_->tokens.size());
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < parts_->special.size() && parts_->special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = parts_->added_ids.find(std::string(token));
  if (found != parts_->added_ids.end()) return found->second;
  return parts_->model->token_to_id(token);
}

std::string Tokenizer::token_bytes(int32_t id) const {
  const std::string_view token = parts_->decodable(id, false);
  return token.empty() ? std::string() : parts_->decoder->token_bytes(std::string(token));
}

std::string Tokenizer::token_text(int32_t id) const {
  std::string bytes = token_bytes(id);
  if (is_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes)
    text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return text;
}

}  // namespace krait::tokenizer
