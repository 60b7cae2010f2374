#include "coordinator/http/headers.h"

#include <algorithm>

namespace krait::http {
namespace {

// Not tolower(): the rules of HTTP do not change with the locale.
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool names_equal(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> Headers::find(std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (names_equal(field, name)) return value;
  }
  return std::nullopt;
}

size_t Headers::count(std::string_view name) const {
  return static_cast<size_t>(
      std::count_if(fields_.begin(), fields_.end(), [&](const auto& field) { return names_equal(field.first, name); }));
}

}  // namespace krait::http
