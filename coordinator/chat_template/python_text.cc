#include "coordinator/chat_template/python_text.h"

#include <charconv>
#include <cmath>

#include "coordinator/chat_template/function.h"
#include "coordinator/chat_template/loop.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

void append_escaped(TextBuilder& out, char32_t c, bool trusted) {
  if (c == '\n') return out.append("\\n", trusted);
  if (c == '\r') return out.append("\\r", trusted);
  if (c == '\t') return out.append("\\t", trusted);
  const auto code = static_cast<uint32_t>(c);
  out.append(code < 0x100     ? fmt::format("\\x{:02x}", code)
             : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                              : fmt::format("\\U{:08x}", code),
             trusted);
}

void append_quoted(TextBuilder& out, const Text& text) {
  const std::string& bytes = text.bytes;
  const bool twice = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
  const char quote = twice ? '"' : '\'';
  const std::string_view mark = twice ? "\"" : "'";
  out.append(mark);
  size_t plain = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(bytes, at);
    const bool escape = c == static_cast<char32_t>(quote) || c == '\\';
    if (!escape && is_printable(c)) continue;
    out.append(text, plain, begin);
    plain = at;
    if (escape) {
      out.append("\\", trusted_at(text, begin));
      out.append(text, begin, at);
    } else {
      append_escaped(out, c, trusted_at(text, begin));
    }
  }
  out.append(text, plain, bytes.size());
  out.append(mark);
}

template <class Items, class Each>
void append_joined(TextBuilder& out, const Items& items, const Each& each) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.append(", ");
    first = false;
    each(item);
  }
}

void append_dict(TextBuilder& out, const Dict& dict) {
  out.append("{");
  append_joined(out, dict.entries, [&](const auto& entry) {
    append_repr(out, entry.first);
    out.append(": ");
    append_repr(out, entry.second);
  });
  out.append("}");
}

void append_view(TextBuilder& out, const View& view) {
  out.append(view.of == ViewOf::kKeys ? "dict_keys([" : view.of == ViewOf::kValues ? "dict_values([" : "dict_items([");
  append_joined(out, view.dict.as_dict().entries, [&](const auto& entry) {
    if (view.of == ViewOf::kItems) out.append("(");
    if (view.of != ViewOf::kValues) append_repr(out, entry.first);
    if (view.of == ViewOf::kItems) out.append(", ");
    if (view.of != ViewOf::kKeys) append_repr(out, entry.second);
    if (view.of == ViewOf::kItems) out.append(")");
  });
  out.append("])");
}

void append_namespace(TextBuilder& out, const Namespace& space) {
  out.append("<Namespace {");
  append_joined(out, space.attributes, [&](const auto& attribute) {
    append_repr(out, Value::string(attribute.first, true));
    out.append(": ");
    append_repr(out, attribute.second);
  });
  out.append("}>");
}

void append_sequence(TextBuilder& out, const Value& value) {
  const bool list = value.is(Kind::kList);
  out.append(list ? "[" : "(");
  append_joined(out, value.items(), [&](const Value& item) { append_repr(out, item); });
  if (!list && value.items().size() == 1) out.append(",");
  out.append(list ? "]" : ")");
}

std::string range_repr(const Range& range) {
  // Python keeps the stop that was given; every stop of an equal range prints its own.
  const int64_t stop = range.stop;
  if (range.step == 1) return fmt::format("range({}, {})", range.start, stop);
  return fmt::format("range({}, {}, {})", range.start, stop, range.step);
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto scientific = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t mark = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(digits, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string fixed(400, '\0');
  const auto end = std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed);
  fixed.resize(static_cast<size_t>(end.ptr - fixed.data()));
  if (fixed.find('.') == fixed.npos) fixed += ".0";
  return fixed;
}

void append_str(TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    out.append(value.as_text());
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

void append_repr(TextBuilder& out, const Value& value) {
  out.budget().step();
  out.budget().enter();
  switch (value.kind()) {
    case Kind::kUndefined:
      out.append("Undefined");
      break;
    case Kind::kNone:
      out.append("None");
      break;
    case Kind::kBool:
      out.append(value.as_bool() ? "True" : "False");
      break;
    case Kind::kInt:
      out.append(fmt::format_int(value.as_int()).c_str());
      break;
    case Kind::kFloat:
      out.append(float_repr(value.as_double()));
      break;
    case Kind::kString:
      append_quoted(out, value.as_text());
      break;
    case Kind::kList:
    case Kind::kTuple:
      append_sequence(out, value);
      break;
    case Kind::kDict:
      append_dict(out, value.as_dict());
      break;
    case Kind::kRange:
      out.append(range_repr(value.as<Range>()));
      break;
    case Kind::kView:
      append_view(out, value.as<View>());
      break;
    case Kind::kNamespace:
      append_namespace(out, value.as<Namespace>());
      break;
    case Kind::kLoop: {
      const auto& loop = value.as<Loop>();
      out.append(fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.items->items.size()));
      break;
    }
    case Kind::kFunction:
      value.as<Function>().append_repr(out);
      break;
    case Kind::kCycler:
      refuse("a cycler has no text");
    case Kind::kGenerator:
      refuse("a generator has no text: turn it into a list first");
  }
  out.budget().leave();
}

Value to_text(Budget& budget, const Value& value) {
  if (value.is_string()) return value;
  TextBuilder out(budget);
  append_str(out, value);
  return Value::text(out.take());
}

}  // namespace krait::chat_template
