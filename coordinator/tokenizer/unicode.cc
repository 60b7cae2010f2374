#include "coordinator/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "coordinator/tokenizer/unicode_ranges.h"
#include "coordinator/tokenizer/utf8.h"

namespace krait::tokenizer {
namespace {

constexpr size_t kMaxDecomposed = 18;  // U+FDFA

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

/// The range of a sorted table that holds `c`, or null.
template <class Table>
const typename Table::value_type* range_of(const Table& table, char32_t c) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), c, [](const auto& range, char32_t at) { return range.last < at; });
  return found == table.end() || c < found->first ? nullptr : &*found;
}

/// General category of a character that utf8proc does not know.
std::string_view newer_category(char32_t c) {
  const CategoryRange* range = range_of(kNewerRanges, c);
  return range == nullptr ? "Cn" : range->category;
}

/// Characters that never compose with what stands before them and stand for themselves in NFC: a text may be cut before
/// each, and one that is followed by another needs no work. Not all such characters, but those of most text.
bool settled_in_nfc(char32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x2010 && c <= 0x2027) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30a1 && c <= 0x30fc) || (c >= 0x4e00 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7a3) ||
         (c >= 0x1f300 && c <= 0x1faff);
}

/// Each run of marks in the order of their classes; marks of one class stay in theirs. utf8proc can do it, in time that
/// grows with the square of the run.
void sort_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_starter = [&](utf8proc_int32_t c) { return mark_class(c) == 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if_not(begin, code_points.end(), is_starter);
    const auto end = std::find_if(begin, code_points.end(), is_starter);
    std::stable_sort(begin, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
}

void append_known_normal_form(std::string_view text, NormalForm form, std::string& out) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                                      (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(next_code_point(text, at));
    std::array<utf8proc_int32_t, kMaxDecomposed> parts{};
    const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts.data(), kMaxDecomposed, options, nullptr);
    CHECK_LE(count, static_cast<utf8proc_ssize_t>(kMaxDecomposed));
    code_points.insert(code_points.end(), parts.begin(), parts.begin() + count);
  }
  sort_marks(code_points);
  auto count = static_cast<utf8proc_ssize_t>(code_points.size());
  if (compose) count = utf8proc_normalize_utf32(code_points.data(), count, options);
  for (const utf8proc_int32_t c : std::span(code_points).first(static_cast<size_t>(count)))
    append_code_point(out, static_cast<char32_t>(c));
}

void append_normal_form(std::string_view text, NormalForm form, std::string& out) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (range_of(kAloneInNormalForms, next_code_point(text, at)) == nullptr) continue;
    // It stands for itself, and nothing moves or composes across it.
    append_known_normal_form(text.substr(done, begin - done), form, out);
    out.append(text, begin, at - begin);
    done = at;
  }
  append_known_normal_form(text.substr(done), form, out);
}

}  // namespace

CharClass char_class_beyond_ascii(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    case UTF8PROC_CATEGORY_CN: {
      const char kind = newer_category(c)[0];
      if (kind == 'N') return CharClass::kNumber;
      return kind == 'L' ? CharClass::kLetter : CharClass::kOther;
    }
    default:
      return c == 0x85 ? CharClass::kSpace : CharClass::kOther;
  }
}

bool is_digit(char32_t c) {
  return is_number(c) || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);  // those of 17
}

bool is_punctuation(char32_t c) {
  if (c < 128) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  if (c == 0x166d || c == 0x111c9) return true;  // punctuation once, symbol and mark now
  if (range_of(kUnknownPunctuation, c) != nullptr) return false;
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_word_char(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_CN: {
      const std::string_view newer = newer_category(c);
      return newer[0] == 'L' || newer[0] == 'M' || newer == "Nd";
    }
    default:
      // The joiners, and the circled and squared letters, which are symbols but alphabetic.
      return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
             (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
  }
}

std::string normal_form(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  const auto settled = [form](char32_t c) { return form == NormalForm::kNfc ? settled_in_nfc(c) : c < 0x80; };
  size_t copied = 0;  // text before it is in `out`
  size_t at = 0;      // text between is settled, but its last character may compose with what follows
  size_t last = 0;    // first byte of the last settled character
  while (at < text.size()) {
    const size_t begin = at;
    if (settled(next_code_point(text, at))) {
      last = begin;
      continue;
    }
    out.append(text, copied, last - copied);
    size_t end = at;
    while (at < text.size() && !settled(next_code_point(text, at)))
      end = at;
    append_normal_form(text.substr(last, end - last), form, out);
    copied = last = at = end;
  }
  out.append(text, copied);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c == 0x130) {
      out += "i\u0307";  // the one character whose lower case is two characters everywhere
    } else if (const LowerCaseRange* newer = range_of(kNewerLowerCase, c)) {
      append_code_point(out, newer->lower + (c - newer->first));
    } else {
      append_code_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

}  // namespace krait::tokenizer
