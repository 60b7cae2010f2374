// JSON of any size and shape is read in time and memory that grow with it, and given back without asking for more.
#include "common/base/json_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "tests/support/allocations/allocations.h"
#include "tests/support/thread_seconds.h"

namespace krait {
namespace {

using nlohmann::json;

constexpr int64_t kManyParts = 1'000'000;

/// {"a": [ITEM, ITEM, ...]}
std::string array_of(size_t count, const std::string& item) {
  std::string text = R"({"a":[)";
  for (size_t i = 0; i < count; ++i)
    text += item + ",";
  return text + "0]}";
}

Error refusal(const std::string& text, int64_t max_parts = kManyParts) {
  const auto parsed = parse_json(text, max_parts);
  EXPECT_FALSE(parsed.ok()) << text.substr(0, 100);
  return parsed.ok() ? Error{} : parsed.error();
}

std::string file_refusal(const std::string& text) {
  const auto parsed = parse_json_object(text, "x.json", kMiB);
  EXPECT_FALSE(parsed.ok()) << text.substr(0, 100);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(JsonText, ReadsWhatTheLibraryReads) {
  for (const std::string text :
       {R"({"b":[1,-2,3.5,"x",null,true,[],{}],"a":{"b":{"c":[[{"d":[0]}]]},"e":"é"}})", "[]", "{}", "7", "-7", "\"t\"",
        "null", "false", "18446744073709551615", "1e-999", "[[],[1]]", R"([{"a":1},{"a":{"a":[{"a":2},3]}}])"}) {
    const auto parsed = parse_json(text, kManyParts);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, json::parse(text)) << text;
    EXPECT_EQ(parsed->dump(), json::parse(text).dump()) << "the same kinds of numbers";
  }
}

/// Processor time of the fastest of a few parses.
double seconds_of(const std::string& text) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = test::thread_seconds();
    EXPECT_TRUE(parse_json(text, kManyParts).ok());
    EXPECT_TRUE(parse_json_object(text, "x.json", kGiB).ok());
    least = std::min(least, test::thread_seconds() - begin);
  }
  return least;
}

TEST(JsonText, FourTimesTheTextTakesFourTimesTheTime) {
  for (const std::string item : {"{}", "[]", R"({"a":[{}]})"}) {
    const double few = seconds_of(array_of(20'000, item));
    const double many = seconds_of(array_of(80'000, item));
    EXPECT_LT(many, 9 * few) << item << ": " << few << " s, then " << many << " s";
  }
}

TEST(JsonText, PartsAreCounted) {
  EXPECT_TRUE(parse_json(R"({"a":[[],{"b":1}],"c":[1,2,3,4,5]})", 8).ok()) << "five containers and three keys";
  const Error error = refusal(R"({"a":[[],{"b":1}],"c":[1,2,3,4,5]})", 7);
  EXPECT_EQ(error.message, "made of more than 7 arrays, objects and keys");
  EXPECT_EQ(error.param, "c");
  EXPECT_TRUE(parse_json(array_of(100'000, "7"), 3).ok()) << "elements are none";
  EXPECT_EQ(refusal(array_of(100'000, "[7]"), 100'000).param, "a");
  EXPECT_EQ(refusal(array_of(100'000, R"({"b":1})"), 200'000).param, "a");
}

TEST(JsonText, GivesBackWithoutAskingForMemory) {
  for (const std::string item : {"[7]", R"({"b":{"c":[1,"a string longer than any that fits in place"]}})"}) {
    auto parsed = parse_json(array_of(1000, item), kManyParts);
    ASSERT_TRUE(parsed.ok());
    const int64_t before = test::allocations().count;
    release_json(*parsed);
    { const json gone = std::move(*parsed); }
    EXPECT_EQ(test::allocations().count, before);
  }
}

TEST(JsonText, MemoryMayEndAnywhere) {
  const std::string text = array_of(20, R"({"b":[[1],{"c":[2,"a string longer than any that fits in place"]}]})");
  int64_t needed = 0;
  for (bool done = false; !done; ++needed) {
    ASSERT_LT(needed, 5000);
    test::allocations().allowed = needed;
    try {
      auto parsed = parse_json(text, kManyParts);
      test::allocations().allowed = 0;
      done = parsed.ok();
      release_json(*parsed);
    } catch (const std::bad_alloc&) {
    }
    test::allocations().allowed = -1;
  }
  EXPECT_GT(needed, 200) << "it ended in many places before there was enough";
}

TEST(JsonText, FilesMayHaveNumbersThatAreNotFinite) {
  const std::string text = R"({"a":NaN,"b":[-Infinity,1e999],"c":"NaN \" Infinity","d":{"e":-1e400}})";
  const auto parsed = parse_json_object(text, "x.json", kMiB);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->dump(), R"({"a":{"__number__":"NaN"},"b":[{"__number__":"-Infinity"},{"__number__":"1e999"}],)"
                            R"("c":"NaN \" Infinity","d":{"e":{"__number__":"-1e400"}}})");
  for (const std::string bad : {"1e999-5", "1e999e", "NaNN", "-NaN", "1e999.5", "--1e999"})
    EXPECT_NE(file_refusal(R"({"a":)" + bad + "}").find("not valid JSON"), std::string::npos) << bad;
}

TEST(JsonText, WordsAreOurs) {
  EXPECT_EQ(file_refusal("{").substr(0, 46), "x.json: not valid JSON: parse error at line 1,");
  EXPECT_EQ(file_refusal(R"({"a":1,"a":2})"), "x.json: ambiguous: the key 'a' stands twice in one object");
  EXPECT_EQ(file_refusal("[]"), "x.json: not a JSON object");
  EXPECT_EQ(file_refusal(std::string(70, '[')), "x.json: nested more than 64 levels deep");
  EXPECT_EQ(file_refusal(std::string("{}\0", 3)), "x.json: not valid JSON: there is a NUL byte in it");
  const std::string unended = "{\"a\":\"" + std::string(10'000, 'x');
  for (const std::string& bad : {std::string("{"), std::string("{\"a\":tru}"), std::string("{\"\xff\":1}"), unended}) {
    for (const std::string& words : {file_refusal(bad), refusal(bad).message}) {
      EXPECT_EQ(words.find("json.exception"), std::string::npos) << words;
      EXPECT_EQ(words.find("last read"), std::string::npos) << words;
      EXPECT_LT(words.size(), 300u);
    }
  }
}

}  // namespace
}  // namespace krait
