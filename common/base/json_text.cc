#include "common/base/json_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"

namespace krait {
namespace {

using nlohmann::json;

/// Builds a value of the parser's events. The library's own builder, when it is given a callback to watch with, walks
/// the whole array again after each of its elements.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(int64_t max_parts) : max_parts_(max_parts) {}
  ~Builder() override { release_json(root_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // text has none
  bool start_object(size_t) override { return open(json::value_t::object); }
  bool start_array(size_t) override { return open(json::value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.size() == 1) field_ = name;
    if (!count_part()) return false;
    const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(name);
    member_ = &at->second;
    if (is_new) return true;
    field_ = name;
    return refuse(fmt::format("ambiguous: the key '{:.80}' stands twice in one object", name));
  }

  /// Without the library's own name in front, and without the text that it read last, which may be megabytes long and
  /// is not ours to repeat.
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange) return refuse("not valid JSON: a number is too large");
    std::string_view what = error.what();
    if (const size_t name = what.find("] "); what.starts_with('[') && name != what.npos) what.remove_prefix(name + 2);
    return refuse(fmt::format("not valid JSON: {:.160}", what.substr(0, what.find("; last read"))));
  }

  json take() { return std::move(root_); }
  Error error() const { return {Errc::kInvalidArgument, refusal_, field_}; }

 private:
  bool refuse(std::string words) {
    refusal_ = std::move(words);
    return false;
  }

  bool count_part() {
    if (++parts_ <= max_parts_) return true;
    return refuse(fmt::format("made of more than {} arrays, objects and keys", max_parts_));
  }

  /// Puts the value where it belongs. Nothing is added beside it while it is open, so it stays where it is.
  json* put(json value) {
    if (!open_.empty() && open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    json& place = open_.empty() ? root_ : *member_;
    place = std::move(value);
    return &place;
  }

  bool add(json value) {
    put(std::move(value));
    return true;
  }

  bool open(json::value_t kind) {
    if (std::cmp_equal(open_.size(), limits::kMaxJsonDepth)) {
      return refuse(fmt::format("nested more than {} levels deep", limits::kMaxJsonDepth));
    }
    if (!count_part()) return false;
    open_.push_back(put(json(kind)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const int64_t max_parts_;
  int64_t parts_ = 0;
  json root_;
  std::vector<json*> open_;  // arrays and objects, outermost first
  json* member_ = nullptr;   // of the innermost object: the key that was read last
  std::string field_;
  std::string refusal_;
};

Error corrupt(std::string_view file, std::string_view what) {
  return {Errc::kCorrupt, fmt::format("{}: {}", file, what), std::string(file)};
}

constexpr auto kWords = std::to_array<std::string_view>({"-Infinity", "Infinity", "NaN"});

/// What stands at a place outside strings, if it is a number or one of the words for what is none.
struct Number final {
  size_t length = 0;  // 0: there is none
  bool finite = true;
};

Number number_at(std::string_view text, size_t at) {
  for (const std::string_view word : kWords) {
    if (text.substr(at).starts_with(word)) return {word.size(), false};
  }
  if (text[at] != '-' && (text[at] < '0' || text[at] > '9')) return {};
  const std::string number(text.substr(at, text.find_first_not_of("+-.0123456789eE", at) - at));
  char* end = nullptr;
  const bool finite = !std::isinf(std::strtod(number.c_str(), &end));
  return {number.size(), finite || *end != '\0'};
}

/// Copies the text with numbers that are not finite respelled. Strings are stepped over.
std::string respell_nonfinite(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      result += c;
      if (c == '\\' && i + 1 < text.size()) result += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    if (const Number number = number_at(text, i); number.length > 0) {
      const std::string_view spelled = text.substr(i, number.length);
      result += number.finite ? std::string(spelled) : fmt::format(R"({{"{}":"{}"}})", kNotFiniteKey, spelled);
      i += number.length - 1;
      continue;
    }
    if (c == '"') in_string = true;
    result += c;
  }
  return result;
}

}  // namespace

Result<json> parse_json(std::string_view text, int64_t max_parts) {
  // The library takes this byte for the end of the text, whatever follows.
  if (text.find('\0') != std::string_view::npos) {
    return Error{Errc::kInvalidArgument, "not valid JSON: there is a NUL byte in it", ""};
  }
  Builder builder(max_parts);
  if (!json::sax_parse(text, &builder)) return builder.error();
  return builder.take();
}

void release_json(json& value) noexcept {
  // From the inside out: the library asks for room for the children that a value still has. Depth is limited.
  if (value.is_array()) {
    auto& items = *value.get_ptr<json::array_t*>();
    for (json& item : items)
      release_json(item);
    items.clear();
  } else if (value.is_object()) {
    auto& members = *value.get_ptr<json::object_t*>();
    for (auto& [key, member] : members)
      release_json(member);
    members.clear();
  }
}

Result<json> parse_json_object(std::string_view text, std::string_view file, int64_t max_bytes) {
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return corrupt(file, fmt::format("{} bytes, more than {}", text.size(), max_bytes));
  }
  auto parsed = parse_json(respell_nonfinite(text), std::numeric_limits<int64_t>::max());
  if (!parsed.ok()) return corrupt(file, parsed.error().message);
  if (!parsed->is_object()) return corrupt(file, "not a JSON object");
  return parsed;
}

}  // namespace krait
