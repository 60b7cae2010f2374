#include "coordinator/tokenizer/byte_level.h"

#include <array>

#include "coordinator/tokenizer/unicode.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

struct ByteChar final {
  std::array<char, 2> utf8{};
  uint8_t bytes = 0;
};

bool is_printable(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet final {
  std::array<ByteChar, 256> chars{};
  std::array<int16_t, 256 + 68> bytes{};  // by code point: the printable bytes stand for themselves, 68 lie behind 255

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t c = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
      bytes[c] = static_cast<int16_t>(byte);
      std::string utf8;
      append_code_point(utf8, c);
      ByteChar& out = chars[static_cast<size_t>(byte)];
      out.bytes = static_cast<uint8_t>(utf8.size());
      for (size_t i = 0; i < utf8.size(); ++i)
        out.utf8[i] = utf8[i];
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet all;
  return all;
}

/// Bytes of an English contraction that begins at the apostrophe at `at`; 0 where there is none.
size_t contraction(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  const char c = rest[0];
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

}  // namespace

void append_byte_chars(std::string_view bytes, std::string& out) {
  const Alphabet& table = alphabet();
  const size_t old = out.size();
  out.resize(old + 2 * bytes.size());
  char* put = out.data() + old;
  for (const char byte : bytes) {
    const ByteChar& c = table.chars[static_cast<uint8_t>(byte)];
    put[0] = c.utf8[0];
    put[1] = c.utf8[1];
    put += c.bytes;
  }
  out.resize(static_cast<size_t>(put - out.data()));
}

std::optional<uint8_t> byte_of_char(char32_t c) {
  const Alphabet& table = alphabet();
  if (c >= table.bytes.size() || table.bytes[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(table.bytes[c]);
}

std::string bytes_of_byte_chars(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const std::optional<uint8_t> byte = byte_of_char(next_code_point(token, at));
    if (!byte) return std::string(token);
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

size_t gpt2_word_end(std::string_view text, size_t begin) {
  if (text[begin] == '\'') {
    const size_t bytes = contraction(text, begin);
    if (bytes > 0) return begin + bytes;
  }
  size_t at = begin;
  CharClass kind = char_class(next_code_point(text, at));
  if (text[begin] == ' ' && at < text.size()) {
    // One space goes with the letters, digits or signs behind it.
    size_t behind = at;
    const CharClass next = char_class(next_code_point(text, behind));
    if (next != CharClass::kSpace) {
      kind = next;
      at = behind;
    }
  }
  size_t last = begin;  // where the last character of the run begins
  while (at < text.size()) {
    size_t behind = at;
    if (char_class(next_code_point(text, behind)) != kind) break;
    last = at;
    at = behind;
  }
  // Of several spaces before a word, the last is left for the word.
  if (kind == CharClass::kSpace && at < text.size() && last > begin) return last;
  return at;
}

}  // namespace krait::tokenizer
