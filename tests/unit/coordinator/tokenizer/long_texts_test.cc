// The time that a text takes grows with its length, and not faster, whatever it is made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/spaceless_texts.h"
#include "tests/support/thread_seconds.h"
#include "tests/unit/coordinator/tokenizer/reference_cases.h"

namespace krait::tokenizer {
namespace {

constexpr size_t kShortBytes = 2'000;
constexpr size_t kTimes = 16;       // a long text is so many short ones
constexpr double kTolerance = 6;    // of a ratio of two times, on a machine that does other things
constexpr double kNothing = 0.005;  // seconds: a long text that takes less is not looked at

/// Processor time of this thread in seconds, the least of a few tries.
double seconds_of(const Tokenizer& tokenizer, const std::string& text, int tries) {
  double best = std::numeric_limits<double>::max();
  for (; tries > 0; --tries) {
    const double begin = test::thread_seconds();
    const auto ids = tokenizer.encode(text, {});
    best = std::min(best, test::thread_seconds() - begin);
    EXPECT_TRUE(ids.ok()) << (ids.ok() ? "" : to_string(ids.error()));
    if (ids.ok()) tokenizer.decode(*ids, false);
  }
  return best;
}

using Texts = std::vector<std::pair<std::string, std::string>>;

/// `many` are the texts `few`, kTimes as long.
void expect_time_grows_with_length(const Tokenizer& tokenizer, const std::string& name, const Texts& few,
                                   const Texts& many) {
  for (size_t i = 0; i < few.size(); ++i) {
    double ratio = 0;
    for (int tries = 1; tries <= 4; tries *= 2) {
      const double slow = seconds_of(tokenizer, many[i].second, tries);
      ratio = slow < kNothing ? 0 : slow / seconds_of(tokenizer, few[i].second, tries) / kTimes;
      if (ratio < kTolerance) break;
    }
    EXPECT_LT(ratio, kTolerance) << name << ", " << many[i].first;
  }
}

TEST(LongTexts, WithoutSpacesTakeTimeByTheirLengthOnEveryPipeline) {
  const auto few = test::spaceless_texts(kShortBytes);
  const auto many = test::spaceless_texts(kShortBytes * kTimes);
  for (const auto& line : read_json_lines("pipelines.jsonl")) {
    const auto tokenizer = Tokenizer::parse(line["tokenizer"].dump());
    ASSERT_TRUE(tokenizer.ok());
    expect_time_grows_with_length(**tokenizer, line["name"], few, many);
  }
  for (const char* name : {"gpt-neox", "falcon", "mistral"}) {
    const auto tokenizer = load_golden(name);
    ASSERT_NE(tokenizer, nullptr);
    expect_time_grows_with_length(*tokenizer, name, few, many);
  }
}

TEST(LongTexts, OfSpacesThatAddedTokensTakeTakeTimeByTheirLength) {
  for (const char* side : {"lstrip", "rstrip"}) {
    const auto tokenizer = Tokenizer::parse(fmt::format(
        R"({{"model": {{"type": "BPE", "vocab": {{"a": 0}}, "merges": []}}, "added_tokens": [
            {{"id": 1, "content": " ", "{0}": true}}, {{"id": 2, "content": "<s>", "{0}": true}}]}})",
        side));
    ASSERT_TRUE(tokenizer.ok()) << to_string(tokenizer.error());
    const auto texts = [](size_t bytes) {
      return Texts{{"spaces", std::string(bytes, ' ')}, {"spaces before a letter", std::string(bytes, ' ') + "a"}};
    };
    expect_time_grows_with_length(**tokenizer, side, texts(kShortBytes), texts(kShortBytes * kTimes));
  }
}

}  // namespace
}  // namespace krait::tokenizer
