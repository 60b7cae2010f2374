// JSON read strictly: request bodies, and models' files as they really are, read once and whole.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/result.h"

namespace krait {

/// Parses any JSON value in time that grows with the text. Refused (kInvalidArgument): what is no JSON, a NUL byte,
/// invalid UTF-8, numbers beyond a double, more than limits::kMaxJsonDepth levels, a key that stands twice in one
/// object, more than `max_parts` arrays, objects and keys together: each of them takes some 100 bytes of memory, an
/// element 16 to 32. The message goes on from "it is"; param: that key, or the field of the outermost object that was
/// read last, of any length.
Result<nlohmann::json> parse_json(std::string_view text, int64_t max_parts);

/// Empties a parsed value without asking for memory. The library's own destructor asks for some, and where there is
/// none it ends the process: hand it what a client sent only after this.
void release_json(nlohmann::json& value) noexcept;

/// The one key of the object that stands for a number which no double holds.
inline constexpr std::string_view kNotFiniteKey = "__number__";

/// Parses one JSON object. Python's NaN, Infinity and -Infinity outside strings, and numbers that a double cannot hold,
/// become {"__number__": "Infinity"} and its like, spelled as they stand there: no reader takes those for a number.
/// Refused (kCorrupt, param `file`): over `max_bytes`, what parse_json() refuses, anything but an object. Takes any
/// bytes without harm.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file, int64_t max_bytes);

}  // namespace krait
