// The command krait-tokenize as people call it.
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

using test::Outcome;

Outcome run(const std::string& arguments, const std::string& input) {
  return test::run_command("krait-tokenize", arguments, input);
}

TEST(KraitTokenize, WritesWhatTheCasesHave) {
  const auto cases = read_json_lines("gpt-neox.cases.jsonl");
  std::string input;
  for (const auto& expected : cases)
    input += nlohmann::json{{"text", expected["text"]}}.dump() + "\n";
  const Outcome outcome = run(fmt::format("'{}'", test::golden_path("tokenizers/gpt-neox.json")), input);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::istringstream lines(outcome.out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_LT(count, cases.size());
    nlohmann::json expected = cases[count];
    expected.erase("text");
    ASSERT_EQ(nlohmann::json::parse(line), expected);
  }
  EXPECT_EQ(count, cases.size());
}

TEST(KraitTokenize, NamesTheLineThatIsWrong) {
  const std::string tokenizer = fmt::format("'{}'", test::golden_path("tokenizers/gpt-neox.json"));
  for (const char* wrong : {"nonsense", "{}", "{\"text\": 5}", "[]", "", "{\"text\": \"\\ud800\"}"}) {
    const Outcome outcome = run(tokenizer, std::string("{\"text\": \"fine\"}\n") + wrong + "\n{\"text\": \"fine\"}\n");
    EXPECT_EQ(outcome.exit_code, 1) << wrong;
    EXPECT_NE(outcome.err.find("line 2"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << "the lines before it are answered";
  }
}

TEST(KraitTokenize, NamesTheFileThatIsWrong) {
  EXPECT_EQ(run("", "").exit_code, 1);
  const Outcome missing = run("/nonexistent/tokenizer.json", "");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("/nonexistent/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace krait::tokenizer
