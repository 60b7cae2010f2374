#include "common/base/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace krait {
namespace {

/// One setting of each kind, as a daemon has them.
struct SettingsFixture : testing::Test {
  Result<bool> parse(std::vector<std::string> arguments) {
    Settings settings("krait-test", "A test.", "1.2.3");
    settings.add("name", name, "a text");
    settings.add("group", groups, "texts");
    settings.add("port", port, "a number", 0, 65'535);
    settings.add("seconds", seconds, "a fraction", 0.5, 100);
    settings.add_choice("dtype", dtype, "one of two", {"f32", "bf16"});
    settings.add_flag("strict", strict, "yes or no");
    arguments.insert(arguments.begin(), "krait-test");
    std::vector<const char*> argv;
    for (const auto& argument : arguments)
      argv.push_back(argument.c_str());
    return settings.parse(static_cast<int>(argv.size()), argv.data());
  }

  bool accepts(std::vector<std::string> arguments) {
    const auto parsed = parse(std::move(arguments));
    if (!parsed.ok()) ADD_FAILURE() << to_string(parsed.error());
    return parsed.ok() && *parsed;
  }

  /// The message of an error.
  std::string refusal(std::vector<std::string> arguments) {
    const auto parsed = parse(arguments);
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.error().code, Errc::kInvalidArgument);
      return parsed.error().message;
    }
    ADD_FAILURE() << fmt::format("{}", fmt::join(arguments, " ")) << " was accepted";
    return "";
  }

  std::string file(const std::string& toml) { return scratch.write("settings.toml", toml); }

  test::ScratchDir scratch;
  std::string name = "default";
  std::vector<std::string> groups;
  int64_t port = 8000;
  double seconds = 10;
  std::string dtype = "f32";
  bool strict = false;
};

TEST_F(SettingsFixture, DefaultsStay) {
  EXPECT_TRUE(accepts({}));
  EXPECT_EQ(name, "default");
  EXPECT_EQ(port, 8000);
  EXPECT_EQ(seconds, 10);
  EXPECT_FALSE(strict);
}

TEST_F(SettingsFixture, TheCommandLineSets) {
  EXPECT_TRUE(accepts(
      {"--name", "a b", "--group", "g0", "--group=g1", "--port=0", "--seconds", "0.5", "--dtype", "bf16", "--strict"}));
  EXPECT_EQ(name, "a b");
  EXPECT_EQ(groups, (std::vector<std::string>{"g0", "g1"}));
  EXPECT_EQ(port, 0);
  EXPECT_EQ(seconds, 0.5);
  EXPECT_EQ(dtype, "bf16");
  EXPECT_TRUE(strict);
}

TEST_F(SettingsFixture, AFileSetsToo) {
  const std::string toml = R"(# of a test
name = "from the file"
group = ["g0", "g1", "g2"]
port = 1234
seconds = 2.5
dtype = "bf16"
strict = true
)";
  EXPECT_TRUE(accepts({"--config", file(toml)}));
  EXPECT_EQ(name, "from the file");
  EXPECT_EQ(groups, (std::vector<std::string>{"g0", "g1", "g2"}));
  EXPECT_EQ(port, 1234);
  EXPECT_EQ(seconds, 2.5);
  EXPECT_EQ(dtype, "bf16");
  EXPECT_TRUE(strict);
}

TEST_F(SettingsFixture, TheCommandLineWinsOverTheFile) {
  EXPECT_TRUE(
      accepts({"--port", "9", "--group", "mine", "--config", file("port = 1234\ngroup = [\"g0\"]\nname = \"f\"\n")}));
  EXPECT_EQ(port, 9);
  EXPECT_EQ(groups, std::vector<std::string>{"mine"});
  EXPECT_EQ(name, "f");
}

TEST_F(SettingsFixture, WhatIsUnknownIsRefusedByName) {
  EXPECT_NE(refusal({"--prot", "1"}).find("--prot"), std::string::npos);
  EXPECT_NE(refusal({"stray"}).find("stray"), std::string::npos);
  EXPECT_NE(refusal({"--group", "g0", "stray"}).find("stray"), std::string::npos) << "one value an option";
  EXPECT_NE(refusal({"--config", file("prot = 1\n")}).find("prot"), std::string::npos);
  EXPECT_NE(refusal({"--config", file("[section]\nport = 1\n")}).find("section"), std::string::npos);
  EXPECT_NE(refusal({"--config", scratch.path() + "/nowhere.toml"}).find("nowhere.toml"), std::string::npos);
}

// Whoever wrote the file wants to be led to the place.
TEST_F(SettingsFixture, WhatIsWrongInAFileIsToldWithItsLine) {
  const std::vector<std::tuple<std::string, int, std::string>> cases = {
      {"name = \"a\"\n\nport = 70000\n", 3, "port"},
      {"name = \"a\"\nport = \"x\"\n", 2, "port"},
      {"\n\nport = 1.5\n", 3, "port"},
      {"seconds = nan\n", 1, "seconds"},
      {"# one\nprot = 1\n", 2, "prot"},
      {"port = 1\nport = 2\n", 2, "port"},
      {"name = \"a\n", 1, ""},
      {"port = 1\nname == \"a\"\n", 2, ""},
      {"port = 1\n[section]\nname = \"a\"\n", 2, "section"},
      {"port = 1\n\nname = 2020-01-01\n", 3, "name"},
      {"group = [[\"a\"]]\n", 1, "group"},
      {"dtype = \"f16\"\n", 1, "dtype"},
      {"strict = \"perhaps\"\n", 1, "strict"},
      {"name = \"\xff\"\n", 1, ""},
  };
  for (const auto& [toml, line, key] : cases) {
    const std::string path = file(toml);
    const std::string said = refusal({"--config", path.c_str()});
    EXPECT_NE(said.find(fmt::format("{} line {}:", path, line)), std::string::npos) << toml << said;
    EXPECT_NE(said.find(key), std::string::npos) << toml << said;
  }
  const std::string path = file("port = 5\n");
  EXPECT_EQ(refusal({"--config", path.c_str(), "--port", "x"}).find("line"), std::string::npos)
      << "not the file's fault";
}

TEST_F(SettingsFixture, RangesIncludeTheirEndsAndNothingElse) {
  for (const char* value : {"-1", "65536", "1.5", "x", "", "9223372036854775808", "1e3", " 1x"})
    EXPECT_NE(refusal({"--port", value}).find("port"), std::string::npos) << value;
  for (const char* value : {"0.49", "100.1", "nan", "inf", "-inf", "x", "1e999"})
    EXPECT_NE(refusal({"--seconds", value}).find("seconds"), std::string::npos) << value;
  EXPECT_NE(refusal({"--dtype", "f16"}).find("dtype"), std::string::npos);
  EXPECT_NE(refusal({"--config", file("port = 70000\n")}).find("port"), std::string::npos);
  EXPECT_NE(refusal({"--config", file("seconds = nan\n")}).find("seconds"), std::string::npos);
  EXPECT_TRUE(accepts({"--port", "65535", "--seconds", "100"}));
}

TEST_F(SettingsFixture, AnOptionOfOneValueStandsOnce) {
  EXPECT_NE(refusal({"--port", "1", "--port", "2"}).find("port"), std::string::npos);
  EXPECT_NE(refusal({"--name"}).find("name"), std::string::npos);
}

TEST_F(SettingsFixture, RequiredOnesAreAskedFor) {
  const auto parse_with = [](std::vector<const char*> argv) {
    std::string folder;
    Settings settings("krait-test", "A test.", "1.2.3");
    settings.add("folder", folder, "where", true);
    return settings.parse(static_cast<int>(argv.size()), argv.data());
  };
  const auto missing = parse_with({"krait-test"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("--folder"), std::string::npos);
  EXPECT_TRUE(parse_with({"krait-test", "--folder", "x"}).ok());
  const std::string from_file = file("folder = \"y\"\n");
  EXPECT_TRUE(parse_with({"krait-test", "--config", from_file.c_str()}).ok());
}

TEST_F(SettingsFixture, VersionAndHelpArePrintedAndEndWithSuccess) {
  for (const char* option : {"--version", "--help"}) {
    testing::internal::CaptureStdout();
    const auto parsed = parse({option});
    const std::string printed = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(parsed.ok());
    EXPECT_FALSE(*parsed);
    EXPECT_NE(printed.find(std::string(option) == "--version" ? "krait-test 1.2.3\n" : "--seconds"), std::string::npos)
        << printed;
  }
}

}  // namespace
}  // namespace krait
