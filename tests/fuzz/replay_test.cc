// The inputs of the tree through every harness: in the ordinary build, and in those with sanitizers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "tests/fuzz/harness.h"
#include "tests/support/golden.h"

namespace krait::fuzz {
namespace {

const std::filesystem::path kFolder = test::source_path("tests/fuzz");

std::vector<std::filesystem::path> inputs_of(const std::string& name, const std::string& kind) {
  std::vector<std::filesystem::path> paths;
  if (!std::filesystem::exists(kFolder / kind / name)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder / kind / name))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Replay : public testing::TestWithParam<size_t> {};

// A find ends the program, so its name is said first.
TEST_P(Replay, EveryInput) {
  const Harness& harness = harnesses()[GetParam()];
  EXPECT_FALSE(inputs_of(harness.name, "corpus").empty()) << "a harness without a corpus starts from nothing";
  for (const std::string kind : {"corpus", "found"}) {
    for (const auto& path : inputs_of(harness.name, kind)) {
      SCOPED_TRACE(path.string());
      std::ifstream file(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      ASSERT_TRUE(file.good() && !bytes.empty()) << path;
      harness.run({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    }
  }
}

TEST(Inputs, BelongToAHarness) {
  std::set<std::string> names;
  for (const Harness& harness : harnesses())
    names.insert(harness.name);
  EXPECT_GE(names.size(), 8u);
  for (const std::string kind : {"corpus", "found"}) {
    if (!std::filesystem::exists(kFolder / kind)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder / kind))
      EXPECT_TRUE(names.contains(entry.path().filename().string())) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Harness, Replay, testing::Range<size_t>(0, harnesses().size()),
                         [](const auto& param) { return harnesses()[param.param].name; });

}  // namespace
}  // namespace krait::fuzz
