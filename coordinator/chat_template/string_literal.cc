// Escapes in string literals, as Python's codec unicode-escape reads them.
#include <charconv>

#include "coordinator/chat_template/lexer.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

/// Reads `digits` digits of `base` at `at`; moves behind them. At most so many, and exactly so many where `exact`.
char32_t read_code(std::string_view body, size_t& at, size_t digits, int base, bool exact, Position where) {
  uint32_t code = 0;
  const size_t end = std::min(body.size(), at + digits);
  const auto [stop, error] = std::from_chars(body.data() + at, body.data() + end, code, base);
  const size_t read = static_cast<size_t>(stop - body.data()) - at;
  if (error != std::errc() || (exact && read != digits)) fail(where, "a string has an unfinished escape");
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(where, "a string's escape is no character");
  at += read;
  return code;
}

/// What Python's replacement of non-ASCII characters makes of one behind a backslash.
std::string spelled_out(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

}  // namespace

std::string unescaped(std::string_view body, Position where) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out += body[at++];
      continue;
    }
    ++at;
    const char c = body[at];  // the lexer lets no string end behind a backslash
    if (const size_t known = kLetters.find(c); known != kLetters.npos) {
      out += kMeanings[known];
      ++at;
    } else if (c == '\n') {
      ++at;
    } else if (c >= '0' && c <= '7') {
      append_code_point(out, read_code(body, at, 3, 8, false, where));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at;
      append_code_point(out, read_code(body, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true, where));
    } else if (c == 'N') {
      fail(where, "characters by name are not supported");
    } else if (static_cast<uint8_t>(c) >= 0x80) {
      out += spelled_out(next_code_point(body, at));
    } else {
      out += '\\';
      out += c;
      ++at;
    }
  }
  return out;
}

}  // namespace krait::chat_template
