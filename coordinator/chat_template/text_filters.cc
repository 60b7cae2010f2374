// Filters that make a text or a number of one value.
#include <cmath>

#include "coordinator/chat_template/attributes.h"
#include "coordinator/chat_template/filters.h"
#include "coordinator/chat_template/format.h"
#include "coordinator/chat_template/json.h"
#include "coordinator/chat_template/operators.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

Value upper(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "upper", {});
  return upper_of(run, to_text(run.budget(), self).as_text());
}

Value lower(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "lower", {});
  return lower_of(run, to_text(run.budget(), self).as_text());
}

Value capitalize(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "capitalize", {});
  return capitalized(run, to_text(run.budget(), self).as_text());
}

/// Words begin after spaces, hyphens and opening brackets.
Value title(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "title", {});
  const Value value = to_text(run.budget(), self);
  const Text& text = value.as_text();
  TextBuilder out(run.budget());
  std::string piece;
  bool begins = true;
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t from = at;
    const char32_t c = next_code_point(text.bytes, at);
    run.budget().step();
    if (!begins) {
      append_lower(run, out, text, from, at);
    } else {
      piece.clear();
      append_in_case(piece, c, Case::kUpper);
      out.append(piece, trusted_at(text, from));
    }
    begins = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  return Value::text(out.take());
}

Value trim(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  const Value text = to_text(run.budget(), self);
  const ByteRange rest = stripped(run.budget(), text.as_text(), given.text(0), true, true);
  return part_of(run, text.as_text(), rest.begin, rest.end);
}

Value replace(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"}, 2);
  const Value text = to_text(run.budget(), self);
  const Value old = to_text(run.budget(), given.needed(0));
  const Value with = to_text(run.budget(), given.needed(1));
  const bool all = given.at(2) == nullptr || given.at(2)->is(Kind::kNone);
  return replaced(run, text.as_text(), old.as_text(), with.as_text(), all ? -1 : given.integer(2, -1));
}

Value center(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "center", {"width"});
  const Value text = to_text(run.budget(), self);
  const int64_t width = given.integer(0, 80);
  const int64_t length = *length_of(text);
  const int64_t missing = width > length ? width - length : 0;
  const int64_t left = missing / 2 + (missing & width & 1);
  return padded(run, text.as_text(), left, missing - left, Text(" ", true));
}

Value indent(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  const Text& text = need_text(self, "indent");
  Value space = Value::string("    ", true);
  if (given.at(0) != nullptr && given.needed(0).is_string()) {
    space = given.needed(0);
  } else if (given.at(0) != nullptr) {
    space = apply(run, Operator::kMultiply, Value::string(" ", true), Value::integer(given.integer(0, 4)));
  }
  const bool blank = given.flag(2, false);
  // A line break is put behind the text first, so that an empty last line counts.
  TextBuilder longer(run.budget());
  longer.append(text);
  longer.append("\n");
  const auto all = longer.take();
  TextBuilder out(run.budget());
  bool first_line = true;
  if (given.flag(1, false)) out.append(space.as_text());
  for (const ByteRange& line : lines_of(all->bytes, false)) {
    run.budget().step();
    if (!first_line) {
      out.append("\n");
      if (blank || line.begin != line.end) out.append(space.as_text());
    }
    out.append(*all, line.begin, line.end);
    first_line = false;
  }
  return Value::text(out.take());
}

Value truncate(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  const int64_t length = given.integer(0, 255);
  const Value end = given.at(2) != nullptr ? given.needed(2) : Value::string("...", true);
  const auto end_length = static_cast<int64_t>(count_code_points(need_text(end, "truncate").bytes));
  const int64_t leeway = given.at(3) == nullptr || given.at(3)->is(Kind::kNone) ? 5 : given.integer(3, 5);
  if (length < end_length || leeway < 0) refuse("truncate: the length is too small");
  const auto size = length_of(self);
  if (!size) refuse(fmt::format("truncate: {} has no length", type_name(self)));
  if (leeway > INT64_MAX - length || *size <= length + leeway) return self;
  const Text& text = need_text(self, "truncate");
  size_t stop = byte_of_code_point(text.bytes, static_cast<size_t>(length - end_length));
  if (!given.flag(1, false)) {
    const size_t space = std::string_view(text.bytes).substr(0, stop).rfind(' ');
    if (space != std::string_view::npos) stop = space;
  }
  TextBuilder out(run.budget());
  out.append(text, 0, stop);
  out.append(end.as_text());
  return Value::text(out.take());
}

Value wordcount(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "wordcount", {});
  const Value text = to_text(run.budget(), self);
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.bytes().size();) {
    const char32_t c = next_code_point(text.bytes(), at);
    const bool word = c == '_' || is_alpha(c) || is_numeric(c) || is_digit(c);
    if (word && !in_word) ++words;
    in_word = word;
  }
  return Value::integer(words);
}

Value string(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "string", {});
  return to_text(run.budget(), self);
}

Value format(Run& run, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) refuse("format: values by place and by name");
  const Value text = to_text(run.budget(), self);
  if (arguments.named.empty()) return format_percent(run, text.as_text(), Value::tuple(arguments.positional));
  auto values = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named)
    values->set(Value::string(name, true), value);
  return format_percent(run, text.as_text(), Value::dict(std::move(values)));
}

[[noreturn]] void refuse_undefined(const Value& self) {
  refuse(self.shared() ? self.as_text().bytes : "an undefined value is used");
}

Value to_int(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "int", {"default", "base"});
  Value otherwise = given.at(0) != nullptr ? given.needed(0) : Value::integer(0);
  if (self.is_undefined()) refuse_undefined(self);
  if (self.is_whole()) return Value::integer(self.as_int());
  double number = 0;
  if (self.is_string()) {
    const int64_t base = given.integer(1, 10);
    if (base != 0 && (base < 2 || base > 36)) refuse("int: the base is none");
    if (const auto whole = parse_int(self.bytes(), static_cast<int>(base))) return Value::integer(*whole);
    const auto real = parse_float(self.bytes());
    if (!real) return otherwise;
    number = *real;
  } else if (self.is(Kind::kFloat)) {
    number = self.as_double();
  } else {
    return otherwise;
  }
  if (!std::isfinite(number)) {
    // int() of an infinity raises what the filter does not catch for a float.
    if (std::isinf(number) && self.is(Kind::kFloat)) refuse("int: an infinity is no integer");
    return otherwise;
  }
  if (std::abs(number) >= 0x1p63) refuse("an integer does not fit 64 bits");
  return Value::integer(static_cast<int64_t>(number));
}

Value to_float(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "float", {"default"});
  if (self.is_undefined()) refuse_undefined(self);
  if (self.is_number()) return Value::real(self.as_double());
  if (self.is_string()) {
    if (const auto number = parse_float(self.bytes())) return Value::real(*number);
  }
  return given.at(0) != nullptr ? given.needed(0) : Value::real(0);
}

Value abs(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "abs", {});
  if (!self.is_number()) refuse(fmt::format("abs: {} is no number", type_name(self)));
  return negate(self, self.is(Kind::kFloat) ? std::signbit(self.as_double()) : self.as_int() < 0);
}

/// The decimal number with `digits` places that is nearest to the exact value of the double; ties go to even.
double rounded(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Value round(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "round", {"precision", "method"});
  const int64_t digits = given.integer(0, 0);
  const std::string method = given.text(1) != nullptr ? given.text(1)->bytes : "common";
  if (method != "common" && method != "ceil" && method != "floor") refuse("round: the method is unknown");
  if (!self.is_number()) refuse(fmt::format("round: {} is no number", type_name(self)));
  if (method == "common") {
    if (self.is(Kind::kFloat)) return Value::real(rounded(self.as_double(), digits));
    if (digits >= 0) return Value::integer(self.as_int());
    refuse("round: an integer to a negative precision is not supported here");
  }
  const Value power = apply(run, Operator::kPower, Value::integer(10), Value::integer(digits));
  const double scaled = apply(run, Operator::kMultiply, self, power).as_double();
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!(std::abs(whole) < 0x1p63)) refuse("round: an integer does not fit 64 bits");
  return apply(run, Operator::kDivide, Value::integer(static_cast<int64_t>(whole)), power);
}

Value tojson(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = given.flag(0, false);
  style.sort_keys = given.flag(3, false);
  if (const Value* width = given.at(1); width != nullptr && !width->is(Kind::kNone)) {
    style.indented = true;
    style.item_separator = ",";
    const int64_t spaces = width->is_string() ? 0 : need_int(*width, "tojson");
    if (spaces > 100) refuse("tojson: the indent is too wide");
    style.indent =
        width->is_string() ? width->bytes() : std::string(static_cast<size_t>(std::max<int64_t>(0, spaces)), ' ');
  }
  if (const Value* separators = given.at(2); separators != nullptr && !separators->is(Kind::kNone)) {
    if (!separators->is_sequence() || separators->items().size() != 2) refuse("tojson: separators must be two texts");
    style.item_separator = need_text(separators->items()[0], "tojson").bytes;
    style.key_separator = need_text(separators->items()[1], "tojson").bytes;
  }
  TextBuilder out(run.budget());
  append_json(out, self, style);
  return Value::text(out.take());
}

Value default_value(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "default", {"default_value", "boolean"});
  if (!self.is_undefined() && !(given.flag(1, false) && !truth(self))) return self;
  return given.at(0) != nullptr ? given.needed(0) : Value::string("", true);
}

/// Bytes other than letters, digits and _.-~ as %XX; of a query, spaces as + and slashes as the others.
void append_quoted(TextBuilder& out, const Text& text, bool query) {
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const char byte = text.bytes[at];
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                       std::string_view("_.-~").find(byte) != std::string_view::npos || (byte == '/' && !query);
    out.budget().step();
    const bool trusted = trusted_at(text, at);
    if (plain || (byte == ' ' && query)) {
      out.append(plain ? std::string_view(&byte, 1) : "+", trusted);
    } else {
      out.append(fmt::format("%{:02X}", static_cast<uint8_t>(byte)), trusted);
    }
  }
}

Value urlencode(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "urlencode", {});
  TextBuilder out(run.budget());
  if (self.is_string() || !is_iterable(self)) {
    append_quoted(out, to_text(run.budget(), self).as_text(), false);
    return Value::text(out.take());
  }
  const auto append_pair = [&](const Value& key, const Value& value) {
    if (out.size() > 0) out.append("&");
    append_quoted(out, to_text(run.budget(), key).as_text(), true);
    out.append("=");
    append_quoted(out, to_text(run.budget(), value).as_text(), true);
  };
  if (self.is(Kind::kDict)) {
    for (const auto& [key, value] : self.as_dict().entries)
      append_pair(key, value);
    return Value::text(out.take());
  }
  Cursor cursor(run.budget(), self);
  for (Value item; cursor.next(item);) {
    const auto pair = collect(run.budget(), item);
    if (pair.size() != 2) refuse("urlencode: an item is no pair");
    append_pair(pair[0], pair[1]);
  }
  return Value::text(out.take());
}

Value attr(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "attr", {"name"}, 1);
  walk(run.budget(), given.needed(0));
  return get_own_attribute(run, self, AttributeName(to_text(run.budget(), given.needed(0)).bytes()));
}

constexpr MethodRow kRows[] = {
    {"upper", upper},         {"lower", lower},    {"capitalize", capitalize},
    {"title", title},         {"trim", trim},      {"replace", replace},
    {"center", center},       {"indent", indent},  {"truncate", truncate},
    {"wordcount", wordcount}, {"string", string},  {"format", format},
    {"int", to_int},          {"float", to_float}, {"abs", abs},
    {"round", round},         {"tojson", tojson},  {"default", default_value},
    {"d", default_value},     {"attr", attr},      {"urlencode", urlencode},
};

}  // namespace

std::span<const MethodRow> text_filters() {
  return kRows;
}

}  // namespace krait::chat_template
