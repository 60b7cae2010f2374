#include "common/base/toml_file.h"

#include <fmt/format.h>

#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <optional>

namespace krait {
namespace {

std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

Result<TomlEntry> entry_of(std::string_view key, const toml::node& node) {
  TomlEntry entry{std::string(key), {}, static_cast<int64_t>(node.source().begin.line)};
  const Error wrong{Errc::kInvalidArgument,
                    fmt::format("'{}' is no text, number, true or false, nor a list of them", key),
                    std::to_string(entry.line)};
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    const auto text = text_of(node);
    if (!text) return wrong;
    entry.values.push_back(*text);
    return entry;
  }
  for (const toml::node& item : *list) {
    const auto text = text_of(item);
    if (!text) return wrong;
    entry.values.push_back(*text);
  }
  return entry;
}

}  // namespace

Result<std::vector<TomlEntry>> read_toml(std::istream& in) {
  try {
    const toml::table table = toml::parse(in);
    std::vector<TomlEntry> entries;
    for (const auto& [key, node] : table) {
      ASSIGN_OR_RETURN(entries.emplace_back(), entry_of(key.str(), node));
    }
    return entries;
  } catch (const toml::parse_error& error) {
    return Error{Errc::kInvalidArgument, std::string(error.description()), std::to_string(error.source().begin.line)};
  }
}

}  // namespace krait
