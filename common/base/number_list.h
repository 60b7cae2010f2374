// "3,1" as numbers.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace krait {

/// Numbers of type T between commas, nothing else; one at least. Otherwise none.
template <class T>
std::optional<std::vector<T>> parse_number_list(std::string_view text) {
  std::vector<T> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    T number{};
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (error != std::errc() || stop != text.data() + end) return std::nullopt;
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

}  // namespace krait
