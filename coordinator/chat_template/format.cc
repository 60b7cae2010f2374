#include "coordinator/chat_template/format.h"

#include <cmath>

#include "coordinator/chat_template/attributes.h"
#include "coordinator/chat_template/format_spec.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/text_tools.h"

namespace krait::chat_template {
namespace {

/// Walks a "%" text and puts the values in.
class PercentFormatter final {
 public:
  PercentFormatter(Run& run, const Text& text, const Value& values)
      : run_(run), text_(text), values_(values), out_(run.budget()) {}

  Value format() {
    const std::string& bytes = text_.bytes;
    size_t plain = 0;
    for (size_t at = bytes.find('%'); at != bytes.npos; at = bytes.find('%', plain)) {
      run_.budget().step();
      out_.append(text_, plain, at);
      at_ = at + 1;
      put_one();
      plain = at_;
    }
    out_.append(text_, plain, bytes.size());
    // A dict may hold more than was asked for, and so may a value that is indexed by name.
    const bool all_used = !values_.is(Kind::kTuple) ? used_ > 0 || values_.is(Kind::kDict) || values_.is(Kind::kList)
                                                    : used_ == values_.items().size();
    if (!all_used) refuse("not all values were used by the format");
    return Value::text(out_.take());
  }

 private:
  char peek() const { return at_ < text_.bytes.size() ? text_.bytes[at_] : '\0'; }

  const Value& next_value() {
    const bool tuple = values_.is(Kind::kTuple);
    if (used_ >= (tuple ? values_.items().size() : 1)) refuse("not enough values for the format");
    return tuple ? values_.items()[used_++] : (++used_, values_);
  }

  Value named_value() {
    const size_t end = text_.bytes.find(')', at_);
    if (end == std::string::npos || !values_.is(Kind::kDict)) refuse("the format needs a dict");
    const Value* value = values_.as_dict().find(std::string_view(text_.bytes).substr(at_ + 1, end - at_ - 1));
    if (value == nullptr) refuse("the format names a key that the dict lacks");
    at_ = end + 1;
    return *value;
  }

  FormatSpec read_spec() {
    FormatSpec spec;
    bool left = false;
    bool zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-')
        left = true;
      else if (c == '0')
        zero = true;
      else if (c == '#')
        spec.alternate = true;
      else if (c == '+' || (c == ' ' && spec.sign == '-'))
        spec.sign = c;
      else if (c != ' ')
        break;
    }
    const auto count = [&]() {
      int64_t out = 0;
      for (; peek() >= '0' && peek() <= '9'; ++at_) {
        out = out * 10 + (peek() - '0');
        if (out > kMaxFormatWidth) refuse("a format's width is too large");
      }
      return out;
    };
    spec.width = count();
    if (peek() == '.') {
      ++at_;
      spec.precision = count();
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L')
      ++at_;
    spec.align = left ? '<' : '>';
    if (zero && !left) spec.fill = "0";
    spec.type = peek();
    ++at_;
    return spec;
  }

  void put_one() {
    Value named;
    const bool has_name = peek() == '(';
    if (has_name) named = named_value();
    FormatSpec spec = read_spec();
    if (spec.type == '%') return out_.append("%");
    const Value value = has_name ? named : next_value();
    const bool zeros = spec.fill == "0";
    if (std::string_view("srac").find(spec.type) != std::string_view::npos) {
      spec.fill = " ";
      return put_text(value, spec);
    }
    if (!value.is_number()) refuse("the format needs a number");
    const bool whole = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
    if (!whole && std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
      refuse("the format has an unknown kind");
    }
    if (zeros) spec.align = '=';
    append_formatted(run_, out_, whole ? whole_value(value, spec) : value, spec);
  }

  /// What %d makes of a number.
  static Value whole_value(const Value& value, FormatSpec& spec) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (decimal) spec.type = 'd';
    if (spec.precision >= 0) refuse("an integer's precision is not supported here");
    if (!value.is(Kind::kFloat)) return Value::integer(value.as_int());
    if (!decimal || !(std::abs(value.as_double()) < 0x1p62)) refuse("the format needs an integer");
    return Value::integer(static_cast<int64_t>(value.as_double()));
  }

  void put_text(const Value& value, const FormatSpec& given) {
    FormatSpec spec = given;
    Value text = value;
    if (spec.type == 'r' || spec.type == 'a') {
      if (spec.type == 'a') refuse("%a is not supported here");
      TextBuilder repr(run_.budget());
      append_repr(repr, value);
      text = Value::text(repr.take());
    } else if (spec.type == 'c') {
      if (!value.is_string() || count_code_points(value.bytes()) != 1) refuse("%c is only supported for a character");
    }
    spec.type = 0;
    append_formatted(run_, out_, to_text(run_.budget(), text), spec);
  }

  Run& run_;
  const Text& text_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t used_ = 0;
};

/// Walks a "{}" text and puts the values in.
class BraceFormatter final {
 public:
  BraceFormatter(Run& run, const Text& text, const Arguments& arguments)
      : run_(run), text_(text), arguments_(arguments), out_(run.budget()) {}

  Value format() {
    const std::string& bytes = text_.bytes;
    size_t plain = 0;
    for (size_t at = bytes.find_first_of("{}"); at != bytes.npos; at = bytes.find_first_of("{}", plain)) {
      run_.budget().step();
      out_.append(text_, plain, at);
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out_.append(text_, at, at + 1);
        plain = at + 2;
        continue;
      }
      if (bytes[at] == '}') refuse("a single '}' in a format");
      const size_t end = bytes.find('}', at);
      if (end == bytes.npos) refuse("a single '{' in a format");
      put_field(std::string_view(bytes).substr(at + 1, end - at - 1));
      plain = end + 1;
    }
    out_.append(text_, plain, bytes.size());
    return Value::text(out_.take());
  }

 private:
  Value first_part(std::string_view name) {
    if (name.empty()) {
      if (numbered_ == Numbering::kGiven) refuse("a format mixes numbered and unnumbered fields");
      numbered_ = Numbering::kAutomatic;
      return positional(next_++);
    }
    if (name.find_first_not_of("0123456789") == name.npos) {
      if (numbered_ == Numbering::kAutomatic) refuse("a format mixes numbered and unnumbered fields");
      numbered_ = Numbering::kGiven;
      const auto index = parse_int(name, 10);
      return positional(index ? static_cast<size_t>(*index) : arguments_.positional.size());
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    refuse("a format names an argument that was not given");
  }

  Value positional(size_t index) const {
    if (index >= arguments_.positional.size()) refuse("not enough values for the format");
    return arguments_.positional[index];
  }

  /// name.attribute[item]...
  Value field_value(std::string_view path) {
    const size_t name = std::min(path.find_first_of(".["), path.size());
    Value value = first_part(path.substr(0, name));
    for (size_t at = name; at < path.size();) {
      if (path[at] == '.') {
        const size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        value = get_attribute(run_, value, AttributeName(std::string(path.substr(at + 1, end - at - 1))));
        at = end;
      } else {
        const size_t end = path.find(']', at);
        if (path[at] != '[' || end == path.npos) refuse("a format has an unknown form");
        const std::string key(path.substr(at + 1, end - at - 1));
        const auto index = key.find_first_not_of("0123456789") == key.npos ? parse_int(key, 10) : std::nullopt;
        value = get_item(run_, value, index ? Value::integer(*index) : Value::string(key, true));
        at = end + 1;
      }
      if (value.is_undefined()) refuse("a format names what is not there");
    }
    return value;
  }

  void put_field(std::string_view field) {
    if (field.find('{') != field.npos) refuse("formats inside formats are not supported here");
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view path = field.substr(0, colon);
    char conversion = 0;
    if (const size_t mark = path.find('!'); mark != path.npos) {
      if (mark + 2 != path.size()) refuse("a format has an unknown conversion");
      conversion = path[mark + 1];
      path = path.substr(0, mark);
    }
    Value value = field_value(path);
    if (conversion == 's') {
      value = to_text(run_.budget(), value);
    } else if (conversion == 'r') {
      TextBuilder repr(run_.budget());
      append_repr(repr, value);
      value = Value::text(repr.take());
    } else if (conversion != 0) {
      refuse("this conversion of a format is not supported here");
    }
    const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : std::string_view();
    append_formatted(run_, out_, value, parse_format_spec(spec));
  }

  enum class Numbering : uint8_t { kUnknown, kAutomatic, kGiven };

  Run& run_;
  const Text& text_;
  const Arguments& arguments_;
  TextBuilder out_;
  Numbering numbered_ = Numbering::kUnknown;
  size_t next_ = 0;
};

}  // namespace

Value format_percent(Run& run, const Text& text, const Value& values) {
  return PercentFormatter(run, text, values).format();
}

Value format_method(Run& run, const Value& self, const Arguments& arguments) {
  return BraceFormatter(run, self.as_text(), arguments).format();
}

Value format_map_method(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "format_map", {""}, 1);
  if (!given.needed(0).is(Kind::kDict)) refuse("format_map() needs a dict");
  Arguments named;
  for (const auto& [key, value] : given.needed(0).as_dict().entries) {
    if (key.is_string()) named.named.emplace_back(key.bytes(), value);
  }
  return BraceFormatter(run, self.as_text(), named).format();
}

}  // namespace krait::chat_template
