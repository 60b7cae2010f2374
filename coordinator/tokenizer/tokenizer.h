// Text to token ids and back, as the pipeline in a Hugging Face tokenizer.json describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/result.h"

namespace krait::tokenizer {

class DecodeChain;
class StretchCache;

/// A loaded tokenizer.json. Immutable after load; every method may be called from any number of threads at once.
class Tokenizer final {
 public:
  struct EncodeOptions final {
    bool add_special_tokens = true;  // let the post-processor add what it adds (a beginning-of-text token, say)
    bool parse_special = true;       // false: the text of a special token inside the input stays ordinary text
    /// Ascending: a special token that touches one of these bytes is ordinary text, the others are found as ever. What
    /// is no special token does not see them: merges go across their borders.
    std::span<const ByteRange> untrusted = {};
    /// Of this tokenizer alone: texts that are there are not tokenized again. The ids are the same without it.
    StretchCache* cache = nullptr;
  };

  /// Reads at most limits::kMaxTokenizerBytes. Errors name the part of the file: kNotFound or kIo (the file itself),
  /// kTooLarge, kCorrupt (not JSON, a wrong type, an id out of range, a merge of unknown tokens), kUnsupported (a
  /// pipeline part that is not known here, by its name).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& tokenizer_json);

  /// The same from the file's text, tokenizer.json's.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view text);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Token ids of `text`. kInvalidArgument where it is not UTF-8, or a pattern of the file needs more steps on it than
  /// there are; kTooLarge beyond limits::kMaxEncodeBytes.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;

  /// Text of `ids`. Bytes that are not UTF-8 become U+FFFD; an id without a token adds nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// One more than the highest id that has a token. Models may pad their vocabulary beyond it.
  int64_t vocab_size() const;

  bool is_special(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;

  /// The bytes that the token stands for in the middle of a text; empty for an id without a token.
  std::string token_bytes(int32_t id) const;

  /// token_bytes as text for logprobs; bytes that are not whole characters are spelled as OpenAI does:
  /// "bytes:\xe2\x9c", with the backslashes in the text.
  std::string token_text(int32_t id) const;

 private:
  friend class StreamDecoder;
  struct Parts;

  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace krait::tokenizer
