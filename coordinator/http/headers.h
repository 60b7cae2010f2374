// Header fields of a request or a response, in order; names compare without case.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krait::http {

/// True when the two names are equal but for the case of ASCII letters.
bool names_equal(std::string_view a, std::string_view b);

class Headers final {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  /// The first value under `name`, if there is one; it lives as long as this object is not changed.
  std::optional<std::string_view> find(std::string_view name) const;
  size_t count(std::string_view name) const;

  size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace krait::http
