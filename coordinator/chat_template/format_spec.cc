#include "coordinator/chat_template/format_spec.h"

#include <cmath>

#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

int64_t read_count(std::string_view text, size_t& at) {
  int64_t out = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    out = out * 10 + (text[at++] - '0');
    if (out > kMaxFormatWidth) refuse("a format's width is too large");
  }
  return out;
}

/// Puts `mark` between groups of digits of the whole part.
std::string grouped(const std::string& digits, char mark, size_t group) {
  size_t whole = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (whole == std::string::npos) whole = digits.size();
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out += mark;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string whole_digits(uint64_t magnitude, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

std::string real_digits(double magnitude, const FormatSpec& spec) {
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  if (std::isnan(magnitude)) return spec.type == 'F' || spec.type == 'E' || spec.type == 'G' ? "NAN" : "nan";
  if (std::isinf(magnitude)) return spec.type == 'F' || spec.type == 'E' || spec.type == 'G' ? "INF" : "inf";
  switch (spec.type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, precision == 0 ? 1 : precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 0:
      if (spec.precision < 0) return float_repr(magnitude);
      [[fallthrough]];
    default:
      refuse("this format of a float is not supported here");
  }
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  if (!text.empty()) {
    const size_t first = code_point_bytes(text[0]);
    if (first < text.size() && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto take = [&](char c) { return at < text.size() && text[at] == c ? (++at, true) : false; };
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  spec.alternate = take('#');
  if (take('0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_count(text, at);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (take('.')) {
    const size_t before = at;
    spec.precision = read_count(text, at);
    if (at == before) refuse("a format's precision is missing");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) refuse("a format has an unknown form");
  return spec;
}

std::string format_number(const Value& value, const FormatSpec& spec) {
  const bool as_real = value.is(Kind::kFloat) || std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  std::string digits;
  bool negative = false;
  if (as_real) {
    negative = std::signbit(value.as_double());
    digits = real_digits(std::abs(value.as_double()), spec);
  } else {
    if (spec.type != 0 && std::string_view("dxXobn").find(spec.type) == std::string_view::npos) {
      refuse("this format of an integer is not supported here");
    }
    if (spec.precision >= 0) refuse("an integer's format has no precision");
    negative = value.as_int() < 0;
    const auto raw = static_cast<uint64_t>(value.as_int());
    digits = whole_digits(negative ? 0 - raw : raw, spec.type);
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping, spec.type == 'x' || spec.type == 'b' ? 4 : 3);
  if (spec.alternate && !as_real && spec.type != 0 && spec.type != 'd') {
    digits = fmt::format("0{}{}", spec.type, digits);
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return sign + digits;
}

void append_formatted(Run& run, TextBuilder& out, const Value& value, const FormatSpec& spec) {
  const bool asked = spec.type != 0 || spec.width != 0 || spec.precision >= 0 || spec.align != 0 ||
                     spec.grouping != 0 || spec.alternate || spec.sign != '-';
  // A bool is written as a word only where nothing is said of how.
  const bool number = value.is_number() && (asked || !value.is(Kind::kBool));
  Value text;
  if (number && spec.type != 's') {
    text = Value::string(format_number(value, spec), true);
  } else {
    const bool plain = value.is_string() || value.is(Kind::kBool);
    if (!plain && asked) refuse(fmt::format("{} has no formats", type_name(value)));
    if (spec.type != 0 && (spec.type != 's' || !value.is_string())) refuse("this format is not one of strings");
    if (spec.align == '=' || spec.grouping != 0) refuse("this format is not one of strings");
    text = to_text(run.budget(), value);
    if (spec.precision >= 0) {
      text = part_of(run, text.as_text(), 0, byte_of_code_point(text.bytes(), static_cast<size_t>(spec.precision)));
    }
  }
  const int64_t missing = spec.width - static_cast<int64_t>(count_code_points(text.bytes()));
  const char align = spec.align != 0 ? spec.align : number ? '>' : '<';
  const Text fill(spec.fill, true);
  if (missing <= 0) {
    out.append(text.as_text());
  } else if (align == '=') {
    const std::string& digits = text.bytes();
    const size_t sign = digits.find_first_of("-+ ") == 0 ? 1 : 0;
    out.append(text.as_text(), 0, sign);
    out.append(padded(run, Text(digits.substr(sign), true), missing, 0, fill).as_text());
  } else {
    const int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
    out.append(padded(run, text.as_text(), left, missing - left, fill).as_text());
  }
}

}  // namespace krait::chat_template
