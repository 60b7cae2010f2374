#include "coordinator/api/json_body.h"

#include <set>
#include <string>
#include <vector>

#include "common/base/limits.h"

namespace krait::api {
namespace {

using nlohmann::json;

/// What stops a parse from within its callback; caught below, never seen outside.
struct Refusal final {
  Error error;
};

}  // namespace

Result<json> parse_body(std::string_view body) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > limits::kMaxJsonDepth) {
      throw Refusal{{Errc::kInvalidArgument,
                     fmt::format("the body is nested more than {} levels deep", limits::kMaxJsonDepth), ""}};
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw Refusal{{Errc::kInvalidArgument, fmt::format("the key '{}' stands twice in one object", key), key}};
      }
    }
    return true;
  };
  try {
    json parsed = json::parse(body, watch);
    if (!parsed.is_object()) return Error{Errc::kInvalidArgument, "the body must be a JSON object", ""};
    return parsed;
  } catch (const Refusal& refusal) {
    return refusal.error;
  } catch (const json::exception& error) {
    return Error{Errc::kInvalidArgument, fmt::format("the body is not valid JSON: {}", error.what()), ""};
  }
}

std::string dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace krait::api
