// JSON as model files really have it, bounded and strict. Inside common/model only (it shows nlohmann's header).
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/result.h"

namespace krait {

/// Parses one JSON object. Python's NaN, Infinity and -Infinity outside strings become {"__float__": "..."}, the other
/// spelling in use. Refused (kCorrupt, param `file`): over limits::kMaxConfigBytes, deeper than kMaxJsonDepth,
/// duplicate keys, numbers that a double cannot hold, invalid UTF-8, anything but an object.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file);

}  // namespace krait
