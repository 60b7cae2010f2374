#include "coordinator/chat_template/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/limits.h"
#include "coordinator/chat_template/python_text.h"
#include "coordinator/chat_template/unicode.h"

namespace krait::chat_template {
namespace {

using nlohmann::json;

std::string_view short_escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return "";
  }
}

std::string unicode_escape(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  const uint32_t rest = code - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
}

void append_string(TextBuilder& out, const Text& text, bool ensure_ascii) {
  const std::string& bytes = text.bytes;
  out.append("\"");
  size_t plain = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(bytes, at);
    const std::string_view escape = c < 0x80 ? short_escape(c) : std::string_view();
    if (escape.empty() && c >= ' ' && (c < 0x7F || !ensure_ascii || c == 0x7F)) continue;
    out.append(text, plain, begin);
    plain = at;
    out.append(escape.empty() ? unicode_escape(c) : std::string(escape), trusted_at(text, begin));
  }
  out.append(text, plain, bytes.size());
  out.append("\"");
}

std::string number_text(const Value& value) {
  if (value.is(Kind::kInt)) return fmt::format("{}", value.as_int());
  const double number = value.as_double();
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return float_repr(number);
}

/// Writes one value after the other, at a depth.
class JsonWriter final {
 public:
  JsonWriter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& value) {
    out_.budget().step();
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null");
      case Kind::kBool:
        return out_.append(value.as_bool() ? "true" : "false");
      case Kind::kInt:
      case Kind::kFloat:
        return out_.append(number_text(value));
      case Kind::kString:
        return append_string(out_, value.as_text(), style_.ensure_ascii);
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value.items());
      case Kind::kDict:
        return write_dict(value.as_dict());
      default:
        refuse(fmt::format("{} is not JSON serializable", type_name(value)));
    }
  }

 private:
  void new_line() {
    if (!style_.indented) return;
    out_.append("\n");
    for (int i = 0; i < level_; ++i)
      out_.append(style_.indent);
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return append_string(out_, key.as_text(), style_.ensure_ascii);
      case Kind::kNone:
        return out_.append("\"null\"");
      case Kind::kBool:
        return out_.append(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::kInt:
      case Kind::kFloat:
        return out_.append(fmt::format("\"{}\"", number_text(key)));
      default:
        refuse(fmt::format("JSON keys may not be {}", type_name(key)));
    }
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries)
      order.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(),
                       [&](auto* a, auto* b) { return less(out_.budget(), a->first, b->first); });
    }
    out_.append("{");
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      write_key(order[i]->first);
      out_.append(style_.key_separator);
      write(order[i]->second);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  TextBuilder& out_;
  const JsonStyle& style_;
  int level_ = 0;
};

/// Takes the events of a parse and builds values of them.
class ValueReader final : public nlohmann::json_sax<json> {
 public:
  explicit ValueReader(std::span<const std::string_view> only) : only_(only) {}

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (left_out_) return true;
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return fail("an integer is larger than 64 bits");
    return add(Value::integer(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (left_out_) return true;
    if (text.find_first_of(".eE") == text.npos) return fail("an integer is larger than 64 bits");
    return add(Value::real(value));
  }
  bool string(string_t& value) override { return add(Value::string(std::move(value), false)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Kind::kDict); }
  bool start_array(size_t) override { return open(Kind::kList); }
  bool key(string_t& value) override {
    if (open_.size() == 1) {
      field_ = value;
      left_out_ = !only_.empty() && std::find(only_.begin(), only_.end(), value) == only_.end();
    }
    open_.back().key = Value::string(std::move(value), false);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return fail("the text is no JSON");
  }

  Result<Value> take() {
    if (!error_.empty()) return Error{Errc::kInvalidArgument, error_, field_};
    return std::move(root_);
  }

 private:
  struct Open final {
    Kind kind = Kind::kList;
    std::vector<Value> items;
    std::shared_ptr<Dict> dict;
    Value key;
  };

  bool fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  bool open(Kind kind) {
    if (open_.size() >= static_cast<size_t>(limits::kMaxJsonDepth)) return fail("the text nests too deeply");
    open_.push_back({kind, {}, kind == Kind::kDict ? std::make_shared<Dict>() : nullptr, {}});
    return true;
  }

  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(done.kind == Kind::kDict ? Value::dict(std::move(done.dict)) : Value::list(std::move(done.items)));
  }

  bool add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (left_out_ && open_.size() == 1) {
      return true;
    } else if (open_.back().kind == Kind::kDict) {
      open_.back().dict->set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  const std::span<const std::string_view> only_;
  bool left_out_ = false;  // the field of the outermost object that is being read
  std::string field_;
  std::vector<Open> open_;
  Value root_;
  std::string error_;
};

}  // namespace

void append_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
  JsonWriter(out, style).write(value);
}

Result<Value> parse_json(std::string_view text, std::span<const std::string_view> only) try {
  ValueReader reader(only);
  json::sax_parse(text, &reader);
  return reader.take();
} catch (const RenderError& error) {
  return Error{Errc::kInvalidArgument, error.message, ""};
}

}  // namespace krait::chat_template
