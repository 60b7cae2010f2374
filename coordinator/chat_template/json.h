// JSON in and out: a request's values, and the filter tojson as transformers defines it.
#pragma once

#include <span>
#include <string_view>

#include "common/base/result.h"
#include "coordinator/chat_template/value.h"

namespace krait::chat_template {

struct JsonStyle final {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// json.dumps(). Refuses what JSON has no form for.
void append_json(TextBuilder& out, const Value& value, const JsonStyle& style);

/// The value of a JSON text, keys in their order, no text of it trusted. kInvalidArgument where it is no JSON, nests
/// deeper than limits::kMaxJsonDepth, or has an integer beyond 64 bits; param the field of the outermost object. Of
/// that only the fields in `only` are taken, unless that is empty: numbers of the others may be anything.
Result<Value> parse_json(std::string_view text, std::span<const std::string_view> only = {});

}  // namespace krait::chat_template
