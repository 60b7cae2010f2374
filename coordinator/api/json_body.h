// Request bodies as JSON, strictly: what this refuses never reaches an endpoint.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace krait::api {

/// One JSON object. kInvalidArgument for anything that is not: no JSON, invalid UTF-8, lone surrogates, numbers beyond
/// a double, more than limits::kMaxJsonDepth levels, a key that stands twice in one object, too many arrays, objects
/// and keys. param: that key, or the field of the body whose value could not be read.
Result<nlohmann::json> parse_body(std::string_view body);

/// Compact JSON text; bytes that are not UTF-8 become U+FFFD.
std::string dump(const nlohmann::ordered_json& value);

/// Characters (code points) of UTF-8 text, as clients count.
int64_t characters(std::string_view utf8);

/// What a client sent, as far as a message should repeat it: at most limits::kMaxQuotedBytes, cut between characters.
std::string shortened(std::string_view text);

}  // namespace krait::api
