#include "common/model/json_text.h"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "common/base/limits.h"

namespace krait {
namespace {

using nlohmann::json;

Error corrupt(std::string_view file, std::string_view what) {
  return {Errc::kCorrupt, fmt::format("{}: {}", file, what), std::string(file)};
}

/// Copies the text with non-finite numbers respelled, and finds how deeply it nests. Strings are stepped over.
struct Respelled final {
  std::string text;
  int depth = 0;
};

Respelled respell_nonfinite(std::string_view text) {
  constexpr auto kWords = std::to_array<std::string_view>({"-Infinity", "Infinity", "NaN"});
  Respelled result;
  result.text.reserve(text.size());
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      result.text += c;
      if (c == '\\' && i + 1 < text.size()) result.text += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    const auto word = std::find_if(kWords.begin(), kWords.end(),
                                   [&](std::string_view candidate) { return text.substr(i).starts_with(candidate); });
    if (word != kWords.end()) {
      result.text += fmt::format(R"({{"__float__":"{}"}})", *word);
      i += word->size() - 1;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') result.depth = std::max(result.depth, ++depth);
    if (c == '}' || c == ']') --depth;
    result.text += c;
  }
  return result;
}

/// Parser callback that remembers a key that occurs twice in one object: readers differ on which one holds.
class DuplicateKeys final {
 public:
  bool operator()(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end && !open_.empty()) open_.pop_back();
    if (event == json::parse_event_t::key && !open_.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second && found_.empty()) found_ = key;
    }
    return true;
  }
  const std::string& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string found_;
};

}  // namespace

Result<json> parse_json_object(std::string_view text, std::string_view file) {
  if (static_cast<int64_t>(text.size()) > limits::kMaxConfigBytes) {
    return corrupt(file, fmt::format("{} bytes, more than {}", text.size(), limits::kMaxConfigBytes));
  }
  try {
    const Respelled respelled = respell_nonfinite(text);
    if (respelled.depth > limits::kMaxJsonDepth) {
      return corrupt(file, fmt::format("nested {} deep, more than {}", respelled.depth, limits::kMaxJsonDepth));
    }
    DuplicateKeys duplicates;
    const auto callback = [&](int, json::parse_event_t event, json& parsed) { return duplicates(event, parsed); };
    json parsed = json::parse(respelled.text, callback);
    if (!parsed.is_object()) return corrupt(file, "not a JSON object");
    if (!duplicates.found().empty()) return corrupt(file, fmt::format("key '{}' occurs twice", duplicates.found()));
    return parsed;
  } catch (const std::exception& error) {
    return corrupt(file, fmt::format("not JSON: {}", error.what()));
  }
}

}  // namespace krait
