#include "coordinator/api/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/base/limits.h"
#include "coordinator/api/json_body.h"

namespace krait::api {
namespace {

using nlohmann::json;

Error wrong(const std::string& name, std::string_view what) {
  return Error{Errc::kInvalidArgument, fmt::format("'{}' must be {}", name, what), name};
}

Status check_range(const std::string& name, double value, const FieldSpec& spec) {
  if (std::isfinite(value) && value >= spec.least && value <= spec.most) return {};
  if (spec.least == kLeastTopP) return wrong(name, fmt::format("above 0, and at most {}", spec.most));
  return Error{Errc::kInvalidArgument, fmt::format("'{}' must be between {} and {}", name, spec.least, spec.most),
               name};
}

Status check_string(const std::string& name, const json& value) {
  if (!value.is_string()) return wrong(name, "a string");
  if (characters(value.get_ref<const std::string&>()) <= limits::kMaxStopStringCharacters) return {};
  return wrong(name, fmt::format("of at most {} characters", limits::kMaxStopStringCharacters));
}

Status check_strings(const std::string& name, const json& value, const FieldSpec& spec) {
  if (value.is_string()) return check_string(name, value);
  if (!value.is_array()) return wrong(name, "a string or an array of strings");
  if (static_cast<double>(value.size()) > spec.most) return wrong(name, fmt::format("at most {} strings", spec.most));
  for (size_t i = 0; i < value.size(); ++i)
    RETURN_IF_ERROR(check_string(fmt::format("{}[{}]", name, i), value[i]));
  return {};
}

/// The id that a key is. One id has one spelling, else "5" and "05" could contradict each other.
std::optional<int32_t> id_of_key(std::string_view key) {
  int32_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool fits = error == std::errc() && end == key.data() + key.size() && id >= 0 && id < limits::kMaxVocab;
  if (!fits || (key.size() > 1 && key.front() == '0') || key.front() == '-') return std::nullopt;
  return id;
}

Status check_bias(const std::string& name, const json& value, const FieldSpec& spec) {
  if (!value.is_object()) return wrong(name, "an object of token ids and numbers");
  if (value.size() > static_cast<size_t>(limits::kMaxLogitBias)) {
    return wrong(name, fmt::format("an object of at most {} entries", limits::kMaxLogitBias));
  }
  for (const auto& [key, bias] : value.items()) {
    const std::string entry = shortened(fmt::format("{}.{}", name, key));
    if (!id_of_key(key)) return wrong(entry, "under a token id");
    if (!bias.is_number()) return wrong(entry, "a number");
    RETURN_IF_ERROR(check_range(entry, bias.get<double>(), spec));
  }
  return {};
}

/// Any integer of 64 bits; those below zero count from the other end.
std::optional<uint64_t> seed_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  const auto number = whole_number(value);
  return number ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

Status check_value(const std::string& name, const json& value, const FieldSpec& spec) {
  switch (spec.type) {
    case FieldType::kModel:
    case FieldType::kString:
      return value.is_string() ? Status() : wrong(name, "a string");
    case FieldType::kBoolean:
      return value.is_boolean() ? Status() : wrong(name, "true or false");
    case FieldType::kInteger: {
      const auto number = whole_number(value);
      if (!number) return wrong(name, "an integer");
      return check_range(name, static_cast<double>(*number), spec);
    }
    case FieldType::kNumber:
      if (!value.is_number()) return wrong(name, "a number");
      return check_range(name, value.get<double>(), spec);
    case FieldType::kSeed:
      return seed_of(value) ? Status() : wrong(name, "an integer of 64 bits");
    case FieldType::kStringOrStrings:
      return check_strings(name, value, spec);
    case FieldType::kTokenIds:
      if (!value.is_array()) return wrong(name, "an array of token ids");
      if (static_cast<double>(value.size()) > spec.most) {
        return wrong(name, fmt::format("an array of at most {} token ids", spec.most));
      }
      if (const auto ids = token_ids(value, name, limits::kMaxVocab); !ids.ok()) return ids.error();
      return {};
    case FieldType::kPrompt:
      return {};  // too many forms for a table: read_prompts checks them
    case FieldType::kBias:
      return check_bias(name, value, spec);
    case FieldType::kStreamOptions:
    case FieldType::kObject:
      return value.is_object() ? Status() : wrong(name, "an object");
    case FieldType::kMessages:  // read_chat_request() looks into them
    case FieldType::kArray:
      if (!value.is_array()) return wrong(name, "an array");
      if (static_cast<double>(value.size()) >= spec.least && static_cast<double>(value.size()) <= spec.most) return {};
      return wrong(name, fmt::format("an array of {} to {} items", spec.least, spec.most));
    case FieldType::kAny:
      return {};
  }
  return {};
}

/// Whether a refused field has one of the values that change nothing.
bool is_neutral(const json& value, std::string_view neutral_texts) {
  const std::string text = fmt::format(" {} ", value.dump(-1, ' ', false, json::error_handler_t::replace));
  return fmt::format(" {} ", neutral_texts).find(text) != std::string::npos;
}

}  // namespace

std::optional<int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::nearbyint(number) != number || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<std::vector<int32_t>> token_ids(const json& array, const std::string& name, int64_t end) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const json& item : array) {
    const auto number = whole_number(item);
    if (!number || *number < 0 || *number >= end) [[unlikely]] {
      const std::string which = fmt::format("{}[{}]", name, ids.size());
      if (!number) return wrong(which, "a token id");
      return Error{Errc::kInvalidArgument, fmt::format("'{}' is {}; token ids are 0 to {}", which, *number, end - 1),
                   which};
    }
    ids.push_back(static_cast<int32_t>(*number));
  }
  return ids;
}

void UnknownFields::add(std::string_view name) {
  if (count++ < static_cast<size_t>(limits::kMaxNamedUnknownFields)) names.push_back(shortened(name));
}

std::string UnknownFields::header() const {
  std::string value = fmt::format("{}", fmt::join(names, ", "));
  if (count > names.size()) value += fmt::format(", ... ({} in all)", count);
  for (char& c : value) {
    if (c < ' ' || c > '~') c = '?';
  }
  return value;
}

void UnknownFields::add(const UnknownFields& more) {
  const size_t all = count + more.count;
  for (const std::string& name : more.names)
    add(name);
  count = all;
}

Result<Fields> Fields::check(json body, std::span<const FieldSpec> table, std::string_view prefix) {
  Fields fields;
  fields.body_ = std::move(body);
  for (const auto& [key, value] : fields.body_.items()) {
    const auto spec =
        std::find_if(table.begin(), table.end(), [&name = key](const auto& entry) { return entry.name == name; });
    const std::string name = std::string(prefix) + key;
    if (spec == table.end()) {
      fields.unknown_.add(name);
    } else if ((spec->use == FieldUse::kUsed || spec->use == FieldUse::kRequired) && !value.is_null()) {
      RETURN_IF_ERROR(check_value(name, value, *spec));
    } else if (spec->use == FieldUse::kRefused && !value.is_null() && !is_neutral(value, spec->values)) {
      return Error{Errc::kInvalidArgument, fmt::format("'{}' is not supported", name), name};
    }
  }
  for (const FieldSpec& spec : table) {
    if (fields.has(spec.name)) continue;
    const std::string name = std::string(prefix) + std::string(spec.name);
    if (spec.use == FieldUse::kRequired) {
      return Error{Errc::kInvalidArgument, fmt::format("'{}' is missing", name), name};
    }
    if (spec.use == FieldUse::kUsed && !spec.values.empty()) {
      fields.body_[std::string(spec.name)] = json::parse(spec.values);
    }
  }
  return fields;
}

const json* Fields::find(std::string_view name) const {
  const auto found = body_.find(std::string(name));
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const json* value = find(name);
  return value != nullptr ? std::optional(value->get<std::string>()) : std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const json* value = find(name);
  return value != nullptr ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view name) const {
  const json* value = find(name);
  return value != nullptr ? whole_number(*value) : std::nullopt;
}

std::optional<double> Fields::number(std::string_view name) const {
  const json* value = find(name);
  return value != nullptr ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<uint64_t> Fields::seed(std::string_view name) const {
  const json* value = find(name);
  return value != nullptr ? seed_of(*value) : std::nullopt;
}

std::vector<std::string> Fields::strings(std::string_view name) const {
  const json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  return value->get<std::vector<std::string>>();
}

std::vector<int32_t> Fields::token_ids(std::string_view name) const {
  const json* value = find(name);
  if (value == nullptr) return {};
  return api::token_ids(*value, std::string(name), limits::kMaxVocab).value();  // check() has seen them
}

std::vector<std::pair<int32_t, float>> Fields::bias(std::string_view name) const {
  std::vector<std::pair<int32_t, float>> out;
  if (const json* value = find(name); value != nullptr) {
    for (const auto& [key, number] : value->items()) {
      out.emplace_back(id_of_key(key).value(), number.get<float>());
    }
  }
  return out;
}

}  // namespace krait::api
