// How one value is written in a formatted text: width, precision, sign, kind of number.
#pragma once

#include <string_view>

#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

struct FormatSpec final {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0: as the type has it
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // , or _
  int64_t precision = -1;
  char type = 0;
};

/// As in "{:>8.2f}". Refuses what Python does not know.
FormatSpec parse_format_spec(std::string_view text);

/// A number in the style of `spec`, without its width. `percent_style`: as the operator % does it.
std::string format_number(const Value& value, const FormatSpec& spec);

/// Appends `value` as str.format would.
void append_formatted(Run& run, TextBuilder& out, const Value& value, const FormatSpec& spec);

/// Digits that a width or a precision may ask for.
inline constexpr int64_t kMaxFormatWidth = 10'000;

}  // namespace krait::chat_template
