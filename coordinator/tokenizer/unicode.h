// Character classes and normal forms of Unicode. The one place that knows utf8proc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace krait::tokenizer {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

/// Letter is \p{L}, number \p{N}, space the property White_Space; each character has one class.
CharClass char_class(char32_t code_point);

inline bool is_space(char32_t code_point) {
  return char_class(code_point) == CharClass::kSpace;
}
inline bool is_number(char32_t code_point) {
  return char_class(code_point) == CharClass::kNumber;
}

/// \p{P} and the ASCII symbols $+<=>^`|~.
bool is_punctuation(char32_t code_point);

/// \w of Unicode's regular expressions (UTS 18): alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_char(char32_t code_point);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// `text` in a normal form; `text` is valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

/// Each character in lower case by itself, without regard to its neighbours.
std::string lower_case(std::string_view text);

}  // namespace krait::tokenizer
