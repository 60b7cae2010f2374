#include "coordinator/chat_template/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "coordinator/chat_template/case_table.h"

namespace krait::chat_template {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool between(char32_t c, char32_t first, char32_t last) {
  return c >= first && c <= last;
}

}  // namespace

size_t count_code_points(std::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

size_t byte_of_code_point(std::string_view utf8, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < utf8.size(); --index)
    at += code_point_bytes(utf8[at]);
  return std::min(at, utf8.size());
}

char32_t next_code_point(std::string_view utf8, size_t& at) {
  const size_t bytes = code_point_bytes(utf8[at]);
  char32_t c = static_cast<uint8_t>(utf8[at]);
  if (bytes > 1) c &= 0x7Fu >> bytes;
  for (size_t i = 1; i < bytes && at + i < utf8.size(); ++i)
    c = c << 6 | (static_cast<uint8_t>(utf8[at + i]) & 0x3F);
  at += bytes;
  return c;
}

void append_code_point(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xFF00 >> (more + 1) & 0xFF) | static_cast<unsigned>(c >> (6 * more)));
  for (int i = more - 1; i >= 0; --i)
    out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

bool is_valid_utf8(std::string_view bytes) {
  utf8proc_int32_t c = 0;
  for (size_t at = 0; at < bytes.size();) {
    const auto* from = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + at;
    const auto read = utf8proc_iterate(from, static_cast<utf8proc_ssize_t>(bytes.size() - at), &c);
    if (read <= 0) return false;
    at += static_cast<size_t>(read);
  }
  return true;
}

bool is_space(char32_t c) {
  if (c < 0x80) return between(c, 9, 13) || between(c, 0x1C, 0x20);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || between(c, 0x2028, 0x2029);
}

bool is_line_break(char32_t c) {
  return between(c, 10, 13) || between(c, 0x1C, 0x1E) || c == 0x85 || between(c, 0x2028, 0x2029);
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto of = category(c);
  return of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || between(c, 0x2074, 0x2079) ||
         between(c, 0x2080, 0x2089) || between(c, 0x2460, 0x2468);
}

bool is_numeric(char32_t c) {
  const auto of = category(c);
  return of == UTF8PROC_CATEGORY_ND || of == UTF8PROC_CATEGORY_NL || of == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || between(c, 0x2160, 0x216F) || between(c, 0x24B6, 0x24CF);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || between(c, 0x2170, 0x217F) ||
         between(c, 0x24D0, 0x24E9);
}

bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019;
  }
}

void append_in_case(std::string& out, char32_t c, Case to) {
  if (c < 0x80) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool upper = c >= 'A' && c <= 'Z';
    if (to == Case::kLower ? upper : lower) c ^= 0x20;
    out += static_cast<char>(c);
    return;
  }
  const auto wide = static_cast<utf8proc_int32_t>(c);
  if (to == Case::kLower) {
    append_code_point(out, c == 0x130 ? U'i' : static_cast<char32_t>(utf8proc_tolower(wide)));
    if (c == 0x130) append_code_point(out, 0x307);
    return;
  }
  const auto& table = internal::kSpecialCases;
  const auto* special = std::lower_bound(std::begin(table), std::end(table), c,
                                         [](const auto& row, char32_t value) { return row.from < value; });
  if (special != std::end(table) && special->from == c) {
    for (const char32_t one : to == Case::kUpper ? special->upper : special->title) {
      if (one != 0) append_code_point(out, one);
    }
    return;
  }
  append_code_point(out, static_cast<char32_t>(to == Case::kUpper ? utf8proc_toupper(wide) : utf8proc_totitle(wide)));
}

}  // namespace krait::chat_template
