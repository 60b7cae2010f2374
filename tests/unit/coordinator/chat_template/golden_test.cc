// Templates rendered by jinja2 as transformers sets it up: the same text from ours, or both refuse.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "coordinator/chat_template/chat_template.h"
#include "coordinator/chat_template/json.h"
#include "tests/support/golden.h"

namespace krait::chat_template {
namespace {

constexpr int64_t kNow = 1'789'000'000;  // as reference.py has it

/// What ours makes of it; nothing where it refuses, and then why.
std::optional<std::string> rendered(const Result<std::shared_ptr<const ChatTemplate>>& chat_template,
                                    const nlohmann::ordered_json& variables, std::string& why) {
  if (!chat_template.ok()) {
    why = chat_template.error().message;
    return std::nullopt;
  }
  ChatTemplate::Variables values;
  for (const auto& [name, value] : variables.items())
    values.emplace_back(name, parse_json(value.dump()).value());
  auto result = (*chat_template)->render(values, kNow);
  if (result.ok()) return result->text;
  why = result.error().message;
  return std::nullopt;
}

/// Compares every case of a file; returns their number.
size_t compare_all(const std::string& file) {
  setenv("TZ", "UTC", 1);
  std::ifstream lines(test::golden_path("templates/" + file));
  size_t cases = 0;
  size_t different = 0;
  std::string last;  // one failure of each template is enough to see
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::ordered_json::parse(line);
    const auto source = json["template"].get<std::string>();
    const auto chat_template = ChatTemplate::parse(source, "case");
    for (const auto& one : json["cases"]) {
      ++cases;
      std::string why;
      const auto ours = rendered(chat_template, one["variables"], why);
      const auto theirs = one["text"].is_null() ? std::nullopt : std::optional(one["text"].get<std::string>());
      if (ours == theirs) continue;
      ++different;
      if (std::exchange(last, source) == source || different > 100) continue;
      ADD_FAILURE() << json["name"] << "\n"
                    << source << "\n"
                    << one["variables"].dump() << "\nours:   " << ours.value_or("(refused: " + why + ")")
                    << "\ntheirs: " << theirs.value_or("(refused)");
    }
  }
  EXPECT_EQ(different, 0u) << "of " << cases;
  return cases;
}

TEST(ChatTemplateGolden, TemplatesInTheStylesInUse) {
  EXPECT_GE(compare_all("styles.jsonl"), 2000u);
}

TEST(ChatTemplateGolden, TemplatesAtRandom) {
  EXPECT_GE(compare_all("random.jsonl"), 500u);
}

}  // namespace
}  // namespace krait::chat_template
