// UTF-8 by the byte: checking, walking, and making text of bytes that may not be text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krait::tokenizer {

enum class Utf8Kind : uint8_t { kWhole, kBroken, kUnfinished };

/// What stands at the front of a byte string.
struct Utf8Step final {
  Utf8Kind kind = Utf8Kind::kWhole;
  size_t bytes = 1;  // of the whole character, of the longest broken beginning of one, or of all that is there
};

/// The step at the front of `bytes`, which is not empty. Surrogates and overlong forms are broken.
Utf8Step utf8_step(std::string_view bytes);

bool is_utf8(std::string_view bytes);

/// Bytes of the character that begins with `first`, in valid UTF-8.
inline size_t utf8_length(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The code point at `at` of valid UTF-8; `at` moves behind it.
char32_t next_code_point(std::string_view text, size_t& at);

/// The code point that ends before `at` > 0 of valid UTF-8; `at` moves to its first byte.
char32_t previous_code_point(std::string_view text, size_t& at);

void append_code_point(std::string& out, char32_t code_point);

/// Turns a stream of bytes into text: whole characters at once, an unfinished one when its rest arrives, and each
/// longest broken beginning of a character as one U+FFFD, as the WHATWG Encoding Standard describes.
class LossyUtf8 final {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string unfinished_;  // at most three bytes between calls
};

}  // namespace krait::tokenizer
