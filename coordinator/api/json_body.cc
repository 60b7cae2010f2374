#include "coordinator/api/json_body.h"

#include <algorithm>

#include "common/base/json_text.h"
#include "common/base/limits.h"

namespace krait::api {
namespace {

using nlohmann::json;

/// Arrays, objects and keys of one body: enough for as many messages as a chat may have, of several parts each.
constexpr int64_t kMaxBodyParts = int64_t{10} * limits::kMaxChatMessages;

}  // namespace

Result<json> parse_body(std::string_view body) {
  auto parsed = parse_json(body, kMaxBodyParts);
  if (!parsed.ok()) {
    return Error{Errc::kInvalidArgument, fmt::format("the body is {}", parsed.error().message),
                 shortened(parsed.error().param)};
  }
  if (parsed->is_object()) return parsed;
  release_json(*parsed);
  return Error{Errc::kInvalidArgument, "the body must be a JSON object", ""};
}

std::string dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

int64_t characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
}

std::string shortened(std::string_view text) {
  if (text.size() <= static_cast<size_t>(limits::kMaxQuotedBytes)) return std::string(text);
  size_t end = static_cast<size_t>(limits::kMaxQuotedBytes);
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace krait::api
