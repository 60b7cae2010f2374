#include "common/base/json_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
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

constexpr auto kWords = std::to_array<std::string_view>({"-Infinity", "Infinity", "NaN"});

/// The word at `at` that stands for a number which is not finite, or for one that no double holds, and how long it is.
struct Word final {
  std::string_view word;  // empty: there is none
  size_t length = 0;      // of it, or of the plain number that stands there
};

Word word_at(std::string_view text, size_t at) {
  for (const std::string_view word : kWords) {
    if (text.substr(at).starts_with(word)) return {word, word.size()};
  }
  if (text[at] != '-' && (text[at] < '0' || text[at] > '9')) return {};
  const std::string number(text.substr(at, text.find_first_not_of("+-.0123456789eE", at) - at));
  const double value = std::strtod(number.c_str(), nullptr);
  if (!std::isinf(value)) return {{}, number.size()};
  return {kWords[value < 0 ? 0 : 1], number.size()};
}

/// Copies the text with non-finite numbers respelled, and finds how deeply it nests. Strings are stepped over.
struct Respelled final {
  std::string text;
  int depth = 0;
};

Respelled respell_nonfinite(std::string_view text) {
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
    const Word word = word_at(text, i);
    if (word.length > 0) {
      if (word.word.empty()) {
        result.text += text.substr(i, word.length);
      } else {
        result.text += fmt::format(R"({{"__float__":"{}"}})", word.word);
      }
      i += word.length - 1;
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

Result<json> parse_json_object(std::string_view text, std::string_view file, int64_t max_bytes) {
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return corrupt(file, fmt::format("{} bytes, more than {}", text.size(), max_bytes));
  }
  // The library takes this byte for the end of the text, whatever follows.
  if (text.find('\0') != std::string_view::npos) return corrupt(file, "not JSON: there is a NUL byte in it");
  try {
    const Respelled respelled = respell_nonfinite(text);
    if (respelled.depth > limits::kMaxJsonDepth) {
      return corrupt(file, fmt::format("nested {} deep, more than {}", respelled.depth, limits::kMaxJsonDepth));
    }
    DuplicateKeys duplicates;
    const auto callback = [&](int, json::parse_event_t event, json& parsed) { return duplicates(event, parsed); };
    json parsed = json::parse(respelled.text, callback);
    if (!parsed.is_object()) return corrupt(file, "not a JSON object");
    if (!duplicates.found().empty()) return corrupt(file, fmt::format("key '{:.80}' occurs twice", duplicates.found()));
    return parsed;
  } catch (const std::exception& error) {
    return corrupt(file, fmt::format("not JSON: {:.300}", error.what()));
  }
}

}  // namespace krait
