#include "coordinator/api/json_body.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/base/limits.h"

namespace krait::api {
namespace {

using nlohmann::json;

/// What stops a parse from within its callback; caught below, never seen outside.
struct Refusal final {
  Error error;
};

Error not_json(std::string_view why, const std::string& field = "") {
  return Error{Errc::kInvalidArgument, fmt::format("the body is not valid JSON: {}", why), field};
}

/// The library's words without its own name in front and without the text that it read last, which is the client's and
/// may be megabytes long.
std::string reason(std::string_view what) {
  if (const size_t name = what.find("] "); what.starts_with('[') && name != what.npos) what.remove_prefix(name + 2);
  what = what.substr(0, what.find("; last read"));
  return shortened(what);
}

/// Sees every event of a parse and refuses what the grammar allows but we do not.
class Watch final {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    using enum nlohmann::detail::parse_event_t;  // its own name: clang 14 takes no alias here
    const bool opens = event == object_start || event == array_start;
    if (opens && depth >= limits::kMaxJsonDepth) {
      throw Refusal{{Errc::kInvalidArgument,
                     fmt::format("the body is nested more than {} levels deep", limits::kMaxJsonDepth), field_}};
    }
    if (event == object_start) keys_.emplace_back();
    if (event == object_end) keys_.pop_back();
    if (event == key && keys_.size() == 1) field_ = shortened(parsed.get_ref<const std::string&>());
    if (event == key && !keys_.back().insert(parsed.get_ref<const std::string&>()).second) {
      const std::string name = shortened(parsed.get_ref<const std::string&>());
      throw Refusal{{Errc::kInvalidArgument, fmt::format("the key '{}' stands twice in one object", name), name}};
    }
    return true;
  }

  /// The body's field that was read last: whatever is wrong, it is in its value or just behind.
  const std::string& field() const { return field_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string field_;
};

}  // namespace

Result<json> parse_body(std::string_view body) {
  // The library takes this byte for the end of the text, whatever follows.
  if (body.find('\0') != std::string_view::npos) return not_json("there is a NUL byte in it");
  Watch watch;
  try {
    json parsed = json::parse(
        body, [&](int depth, json::parse_event_t event, json& value) { return watch(depth, event, value); });
    if (!parsed.is_object()) return Error{Errc::kInvalidArgument, "the body must be a JSON object", ""};
    return parsed;
  } catch (const Refusal& refusal) {
    return refusal.error;
  } catch (const json::parse_error& error) {
    return not_json(reason(error.what()), watch.field());
  } catch (const json::exception&) {
    return not_json("a number is too large", watch.field());
  }
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
