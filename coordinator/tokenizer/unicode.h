// Character classes and normal forms of Unicode. The one place that knows utf8proc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krait::tokenizer {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

namespace internal {

constexpr CharClass ascii_class(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c >= '0' && c <= '9') return CharClass::kNumber;
  return c == ' ' || (c >= '\t' && c <= '\r') ? CharClass::kSpace : CharClass::kOther;
}

constexpr std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> table{};
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = ascii_class(static_cast<char>(i));
  return table;
}

inline constexpr std::array<CharClass, 128> kAsciiClasses = ascii_classes();

}  // namespace internal

CharClass char_class_beyond_ascii(char32_t code_point);

/// Letter is \p{L}, number \p{N}, space the property White_Space, of Unicode 16; each character has one class.
inline CharClass char_class(char32_t c) {
  return c < 128 ? internal::kAsciiClasses[c] : char_class_beyond_ascii(c);
}

inline bool is_space(char32_t code_point) {
  return char_class(code_point) == CharClass::kSpace;
}
inline bool is_number(char32_t code_point) {
  return char_class(code_point) == CharClass::kNumber;
}

/// Numbers as the pre-tokenizer Digits knows them, which follows Unicode 17.
bool is_digit(char32_t code_point);

/// \p{P} as the pre-tokenizer Punctuation knows it, and the ASCII symbols $+<=>^`|~.
bool is_punctuation(char32_t code_point);

/// \w of Unicode's regular expressions (UTS 18): alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_char(char32_t code_point);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// `text` in a normal form; `text` is valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

/// Each character in lower case by itself, without regard to its neighbours.
std::string lower_case(std::string_view text);

}  // namespace krait::tokenizer
