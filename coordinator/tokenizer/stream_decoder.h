// Text of tokens as they arrive, one at a time, never half a character.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {

/// What push() and flush() return, put together, is Tokenizer::decode() of the pushed ids, wherever the stream is cut.
/// A token costs amortised time in proportion to its own text. Not thread-safe; one object a sequence.
class StreamDecoder final {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  /// The text that is certain now: whole characters only, perhaps none. An id without a token adds nothing.
  std::string push(int32_t id);

  /// The rest, with unfinished characters as U+FFFD. Afterwards the decoder stands at the beginning of a new text.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<DecodeChain> chain_;
};

}  // namespace krait::tokenizer
