// Reading the parts of tokenizer.json: every field is checked, and every error names the part.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/result.h"

namespace krait::tokenizer {

using Json = nlohmann::json;

/// Where in the file a part stands, for errors, and how deep it is nested.
struct Where final {
  std::string path;
  int depth = 0;

  Where child(std::string_view name) const { return {fmt::format("{}.{}", path, name), depth + 1}; }
  Where child(size_t index) const { return {fmt::format("{}[{}]", path, index), depth + 1}; }
};

inline Error corrupt(const Where& where, std::string_view what) {
  return Error{Errc::kCorrupt, fmt::format("tokenizer.json: {}: {}", where.path, what), where.path};
}

inline Error unsupported(const Where& where, std::string_view what) {
  return Error{Errc::kUnsupported, fmt::format("tokenizer.json: {}: {}", where.path, what), where.path};
}

/// Fields of a JSON object, each with the error that names it. The optional ones take null for absent.
Result<const Json*> field(const Json& object, const char* key, const Where& where);
const Json* find_field(const Json& object, const char* key);  // nullptr where absent or null
Result<std::string> string_field(const Json& object, const char* key, const Where& where);
Result<bool> bool_field(const Json& object, const char* key, bool absent, const Where& where);
Result<int64_t> int_field(const Json& object, const char* key, int64_t low, int64_t high, const Where& where);
Result<int32_t> to_token_id(const Json& value, const Where& where);

/// One line of a table of parts: the name under "type" and what makes the part.
template <class Part>
struct PartMaker final {
  std::string_view type;
  Result<std::unique_ptr<Part>> (*make)(const Json& json, const Where& where);
};

/// Makes the part that `json` describes. A type that the table lacks is refused by its name.
template <class Part>
Result<std::unique_ptr<Part>> make_part(std::span<const PartMaker<Part>> table, const Json& json, const Where& where) {
  // Each sequence inside another adds two steps to the path: its list and the place in it.
  if (where.depth > 2 * limits::kMaxTokenizerDepth) return corrupt(where, "nested too deeply");
  ASSIGN_OR_RETURN(const std::string type, string_field(json, "type", where));
  for (const PartMaker<Part>& line : table) {
    if (line.type == type) return line.make(json, {fmt::format("{} ({})", where.path, type), where.depth});
  }
  return unsupported(where, fmt::format("the part \"{}\" is not supported", type.substr(0, 80)));
}

/// The parts in the array under `key`, each by `make`.
template <class Part>
Result<std::vector<std::unique_ptr<Part>>> make_parts(Result<std::unique_ptr<Part>> (*make)(const Json&, const Where&),
                                                      const Json& json, const char* key, const Where& where) {
  ASSIGN_OR_RETURN(const Json* list, field(json, key, where));
  if (!list->is_array()) return corrupt(where.child(key), "must be an array");
  if (list->size() > static_cast<size_t>(limits::kMaxTokenizerParts))
    return corrupt(where.child(key), "too many parts");
  std::vector<std::unique_ptr<Part>> parts;
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(auto part, make((*list)[i], where.child(key).child(i)));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace krait::tokenizer
