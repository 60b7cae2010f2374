// Characters as Python's str sees them. The one place of this room that knows utf8proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krait::chat_template {

/// Bytes of the character that begins with `first`, in valid UTF-8.
inline size_t code_point_bytes(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

size_t count_code_points(std::string_view utf8);
/// The byte where code point `index` of `utf8` begins, or the end.
size_t byte_of_code_point(std::string_view utf8, size_t index);
/// The code point at `at` of valid UTF-8; `at` moves behind it.
char32_t next_code_point(std::string_view utf8, size_t& at);
void append_code_point(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view bytes);

bool is_space(char32_t c);       // str.isspace
bool is_line_break(char32_t c);  // where str.splitlines cuts
bool is_printable(char32_t c);   // str.isprintable
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_case_ignorable(char32_t c);

enum class Case : uint8_t { kUpper, kLower, kTitle };

/// Appends `c` in another case: one character or several. The end of a word in Greek is the caller's to see.
void append_in_case(std::string& out, char32_t c, Case to);

}  // namespace krait::chat_template
