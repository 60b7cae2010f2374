// krait-render-templates: for test_templates.py. Of each line of standard input, {"template": str, "cases": [variables,
// ...]}, a line with what this interpreter makes of the cases: {"texts": [str or null, ...], "whys": [why it refuses,
// or ""]}.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "coordinator/chat_template/chat_template.h"
#include "coordinator/chat_template/json.h"

namespace krait::chat_template {
namespace {

constexpr int64_t kNow = 1'789'000'000;  // as tests/golden/templates/reference.py has it

nlohmann::json rendered(const nlohmann::ordered_json& line) {
  nlohmann::json out{{"texts", nlohmann::json::array()}, {"whys", nlohmann::json::array()}};
  const auto refuse = [&](const Error& error) {
    out["texts"].push_back(nullptr);
    out["whys"].push_back(error.message);
  };
  const auto loaded = ChatTemplate::parse(line["template"].get<std::string>(), "template");
  for (const auto& variables : line["cases"]) {
    if (!loaded.ok()) {
      refuse(loaded.error());
      continue;
    }
    ChatTemplate::Variables values;
    for (const auto& [name, value] : variables.items())
      values.emplace_back(name, parse_json(value.dump()).value());
    const auto result = (*loaded)->render(values, kNow);
    if (result.ok()) {
      out["texts"].push_back(result->text);
      out["whys"].push_back("");
    } else {
      refuse(result.error());
    }
  }
  return out;
}

}  // namespace
}  // namespace krait::chat_template

int main() {
  setenv("TZ", "UTC", 1);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << krait::chat_template::rendered(nlohmann::ordered_json::parse(line)) << "\n";
  return 0;
}
