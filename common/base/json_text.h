// JSON as models' files really have it, bounded and strict: for files that are read once and whole.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/result.h"

namespace krait {

/// Parses one JSON object. Python's NaN, Infinity and -Infinity outside strings, and numbers that a double cannot hold,
/// become {"__float__": "Infinity"} and its like, the other spelling in use: no reader takes those for a number.
/// Refused (kCorrupt, param `file`): over `max_bytes`, deeper than limits::kMaxJsonDepth, a key that stands twice in
/// one object, a NUL byte, invalid UTF-8, anything but an object. Takes any bytes without harm.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file, int64_t max_bytes);

}  // namespace krait
