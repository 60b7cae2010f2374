// tokenizer.json, then a zero byte and a text: loaded, the text to ids and back, in one piece and as a stream.
#include "common/base/limits.h"
#include "coordinator/tokenizer/stream_decoder.h"
#include "coordinator/tokenizer/stretch_cache.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/utf8.h"
#include "tests/fuzz/harness.h"

namespace krait::tokenizer {
namespace {

void check_ids(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool skip_special : {false, true}) {
    const std::string whole = tokenizer->decode(ids, skip_special);
    CHECK(is_utf8(whole));
    StreamDecoder stream(tokenizer, skip_special);
    std::string pieces;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      CHECK(is_utf8(piece));
      pieces += piece;
    }
    pieces += stream.flush();
    CHECK_EQ(pieces, whole);
    if (fuzz::planted() && whole.find("aa") != std::string::npos) fuzz::found_planted();
  }
  for (const int32_t id : ids)
    CHECK(is_utf8(tokenizer->token_text(id)));
}

void check_text(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text, bool add_special_tokens,
                bool parse_special) {
  const auto ids = tokenizer->encode(text, {add_special_tokens, parse_special});
  if (!ids.ok()) {
    CHECK(ids.error().code == Errc::kInvalidArgument || ids.error().code == Errc::kResourceExhausted ||
          ids.error().code == Errc::kTooLarge);
    return fuzz::check_error_text(ids.error().message, ids.error().param);
  }
  for (const int32_t id : *ids) {
    CHECK_LE(0, id);
    CHECK_LT(id, tokenizer->vocab_size());
  }
  // Words are remembered from the first time on, and stretches where somebody keeps them; that must not show.
  StretchCache cache(1 << 20);
  for (StretchCache* kept : {static_cast<StretchCache*>(nullptr), &cache, &cache}) {
    const auto again = tokenizer->encode(text, {add_special_tokens, parse_special, {}, kept});
    CHECK(again.ok());
    CHECK(*again == *ids);
  }
  check_ids(tokenizer, *ids);
}

}  // namespace

KRAIT_FUZZ(tokenizer, input) {
  const std::string_view all = fuzz::text(input);
  const size_t end = std::min(all.find('\0'), all.size());
  const auto tokenizer = Tokenizer::parse(all.substr(0, end));
  if (!tokenizer.ok()) {
    CHECK(tokenizer.error().code == Errc::kCorrupt || tokenizer.error().code == Errc::kUnsupported ||
          tokenizer.error().code == Errc::kTooLarge);
    return fuzz::check_error_text(tokenizer.error().message, tokenizer.error().param);
  }
  CHECK_LE((*tokenizer)->vocab_size(), limits::kMaxVocab);
  const std::string_view text = end < all.size() ? all.substr(end + 1) : "A text, <s>plain</s> enough.";
  check_text(*tokenizer, text, true, true);
  check_text(*tokenizer, text, false, false);
  // Ids that no text gives: not in the vocabulary, or in an order of their own.
  std::vector<int32_t> ids;
  for (const char c : text.substr(0, 64))
    ids.push_back(static_cast<int32_t>(static_cast<uint8_t>(c)) - 2);
  check_ids(*tokenizer, ids);
}

}  // namespace krait::tokenizer
