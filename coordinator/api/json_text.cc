#include "coordinator/api/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "coordinator/api/json_body.h"

namespace krait::api {

void append_string(std::string& out, std::string_view utf8) {
  const bool plain =
      std::all_of(utf8.begin(), utf8.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out += '"';
    out += utf8;
    out += '"';
  } else {
    out += dump(std::string(utf8));
  }
}

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, end);
  // Readers that tell integers from other numbers must see the same kind always.
  const bool whole = std::none_of(text, end, [](char c) { return c == '.' || c == 'e'; });
  if (whole) out += ".0";
}

void JsonItems::move_to(std::string& out) {
  out += '[';
  out += text_;
  out += ']';
  text_ = {};
}

}  // namespace krait::api
