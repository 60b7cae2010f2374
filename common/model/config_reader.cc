#include "common/model/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/base/json_text.h"

namespace krait {
namespace {

using nlohmann::json;

/// A value for a message: short, as it stands in the file, and whole UTF-8 whatever it was cut from.
std::string show(const json& value) {
  const std::string dumped = value.dump(-1, ' ', true, json::error_handler_t::replace);
  const std::string open = fmt::format(R"({{"{}":")", kNotFiniteKey);
  constexpr std::string_view kClose = "\"}";
  constexpr size_t kShown = 80;
  std::string text;
  for (size_t at = 0; at < dumped.size() && text.size() <= kShown;) {
    if (dumped.compare(at, open.size(), open) != 0) {
      text += dumped[at++];
      continue;
    }
    at += open.size();
    const size_t end = std::min(dumped.find(kClose, at), dumped.size());
    text.append(dumped, at, end - at);
    at = end + kClose.size();
  }
  if (text.size() > kShown) text.replace(kShown, std::string::npos, "...");
  return text;
}

/// Infinity in either spelling, see json_text.h; another number too large for a double is one as well.
bool is_infinity(const json& value) {
  if (!value.is_object() || value.size() != 1 || !value.begin()->is_string()) return false;
  const auto& word = value.begin()->get_ref<const std::string&>();
  if (value.begin().key() == kNotFiniteKey) return std::strtod(word.c_str(), nullptr) > 0;
  return value.begin().key() == "__float__" && word == "Infinity";
}

/// Nothing for a number that does not fit 64 signed bits, and for anything that is not an integer.
std::optional<int64_t> as_integer(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

}  // namespace

const json* ConfigReader::get(std::string_view field) {
  known_.emplace(field);
  const auto at = object_.find(field);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void ConfigReader::fail(Errc code, std::string_view field, std::string_view what) {
  if (!error_) error_ = Error{code, fmt::format("{}: {} {}", file_, field, what), std::string(field)};
}

void ConfigReader::take_fault(std::string_view field, const ConfigReader& inner) {
  if (!error_ && inner.error_) error_ = Error{inner.error_->code, inner.error_->message, std::string(field)};
}

int64_t ConfigReader::integer(std::string_view field, int64_t low, int64_t high, std::optional<int64_t> fallback) {
  const json* value = get(field);
  if (value == nullptr) {
    if (!fallback) fail(Errc::kCorrupt, field, "is missing");
    return fallback.value_or(low);
  }
  const std::optional<int64_t> number = as_integer(*value);
  if (!number || *number < low || *number > high) {
    fail(Errc::kCorrupt, field, fmt::format("is {}, not an integer in {}..{}", show(*value), low, high));
    return low;
  }
  return *number;
}

double ConfigReader::number(std::string_view field, double low, double high, std::optional<double> fallback) {
  const json* value = get(field);
  if (value == nullptr) {
    if (!fallback) fail(Errc::kCorrupt, field, "is missing");
    return fallback.value_or(low);
  }
  // What is not finite is no number here, however it is spelled: see interval().
  const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(number >= low && number <= high)) {
    fail(Errc::kCorrupt, field, fmt::format("is {}, not a number in {}..{}", show(*value), low, high));
    return low;
  }
  return number;
}

std::pair<double, double> ConfigReader::interval(std::string_view field, std::pair<double, double> fallback) {
  const json* value = get(field);
  if (value == nullptr) return fallback;
  const auto bound = [](const json& end) {
    if (end.is_number()) return end.get<double>();
    return is_infinity(end) ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  };
  if (value->is_array() && value->size() == 2) {
    const double low = bound((*value)[0]);
    const double high = bound((*value)[1]);
    if (low >= 0 && low <= high) return {low, high};
  }
  fail(Errc::kCorrupt, field, fmt::format("is {}, not two numbers in order, the first at least 0", show(*value)));
  return fallback;
}

std::string_view ConfigReader::spelling(std::initializer_list<std::string_view> fields) const {
  for (const std::string_view field : fields) {
    const auto at = object_.find(field);
    if (at != object_.end() && !at->is_null()) return field;
  }
  return *fields.begin();
}

bool ConfigReader::boolean(std::string_view field, bool fallback) {
  const json* value = get(field);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(Errc::kCorrupt, field, fmt::format("is {}, not true or false", show(*value)));
  return fallback;
}

std::string ConfigReader::word(std::string_view field, std::string_view fallback) {
  const json* value = get(field);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  fail(Errc::kCorrupt, field, fmt::format("is {}, not a string", show(*value)));
  return std::string(fallback);
}

bool ConfigReader::is_word(std::string_view field, std::string_view value) {
  const json* found = get(field);
  return found != nullptr && found->is_string() && found->get_ref<const std::string&>() == value;
}

void ConfigReader::must_be(std::string_view field, bool value) {
  if (boolean(field, value) != value) {
    fail(Errc::kUnsupported, field, fmt::format("is {}; only {} is supported", !value, value));
  }
}

void ConfigReader::must_be_word(std::string_view field, std::span<const std::string_view> values) {
  const std::string found = word(field, values.front());
  if (std::find(values.begin(), values.end(), found) == values.end()) {
    fail(Errc::kUnsupported, field, fmt::format("is {}; only {} is supported", show(found), fmt::join(values, " or ")));
  }
}

void ConfigReader::must_be_empty(std::string_view field) {
  const json* value = get(field);
  if (value != nullptr && !((value->is_object() || value->is_array()) && value->empty())) {
    fail(Errc::kUnsupported, field, fmt::format("is {}, which is not supported", show(*value)));
  }
}

void ConfigReader::must_agree(std::string_view field, int64_t value, std::string_view other) {
  const json* found = get(field);
  if (found != nullptr && as_integer(*found) != std::optional<int64_t>(value)) {
    fail(Errc::kCorrupt, field, fmt::format("is {} but {} is {}", show(*found), other, value));
  }
}

void ConfigReader::harmless(std::span<const std::string_view> fields) {
  for (const std::string_view field : fields)
    known_.emplace(field);
}

Status ConfigReader::status() const {
  if (error_) return *error_;
  return {};
}

std::vector<std::string> ConfigReader::unknown_fields() const {
  std::vector<std::string> unknown;
  for (const auto& item : object_.items()) {
    if (!known_.contains(item.key())) unknown.push_back(item.key());
  }
  return unknown;
}

}  // namespace krait
