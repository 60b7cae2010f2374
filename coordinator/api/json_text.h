// JSON written straight into text, for answers that are many or large: the same text as json_body's dump().
#pragma once

#include <string>
#include <string_view>

namespace krait::api {

/// Appends a quoted string; bytes that are not UTF-8 become U+FFFD.
void append_string(std::string& out, std::string_view utf8);

/// Appends the shortest text that reads back as this number; null where it is not finite.
void append_number(std::string& out, double value);

/// The items of an array, as text.
class JsonItems final {
 public:
  /// Where the next item is to be written.
  std::string& next() {
    if (!text_.empty()) text_ += ',';
    return text_;
  }
  bool empty() const { return text_.empty(); }
  size_t size() const { return text_.size(); }
  /// Appends the array, and is empty again.
  void move_to(std::string& out);

 private:
  std::string text_;
};

}  // namespace krait::api
