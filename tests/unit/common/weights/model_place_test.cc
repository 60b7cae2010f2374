#include "common/weights/model_place.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/golden.h"

namespace krait {
namespace {

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
      unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  /// A model as the tools keep it below `hub`; returns its snapshot.
  static std::string keep(const std::string& hub, const std::string& revision = "abc123") {
    const std::string kept = hub + "/models--org--small-model.v1";
    std::filesystem::create_directories(kept + "/refs");
    std::filesystem::create_directories(kept + "/snapshots/abc123");
    std::ofstream(kept + "/refs/main") << revision;
    return kept + "/snapshots/abc123";
  }

  const test::ScratchDir folder_;
};

TEST_F(Cache, AFolderIsItself) {
  const auto found = find_model(folder_.path());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->path, folder_.path());
  EXPECT_EQ(found->name, std::filesystem::path(folder_.path()).filename());
}

TEST_F(Cache, TheFoldersNameIsTheModels) {
  EXPECT_EQ(find_model("/models/mamba-130m")->name, "mamba-130m");
  EXPECT_EQ(find_model("/models/mamba-130m/")->name, "mamba-130m");
  EXPECT_EQ(find_model("/models/x/../mamba-130m/.")->name, "mamba-130m");
}

TEST_F(Cache, ANameIsLookedUpWhereTheToolsKeepModels) {
  const auto expect_found = [](const std::string& snapshot) {
    const auto found = find_model("org/small-model.v1");
    ASSERT_TRUE(found.ok()) << to_string(found.error());
    EXPECT_EQ(found->path, snapshot);
    EXPECT_EQ(found->name, "org/small-model.v1");
  };
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  expect_found(keep(folder_.path() + "/huggingface/hub"));
  setenv("HF_HOME", (folder_.path() + "/tools").c_str(), 1);
  expect_found(keep(folder_.path() + "/tools/hub"));
  setenv("HF_HUB_CACHE", (folder_.path() + "/cache").c_str(), 1);
  expect_found(keep(folder_.path() + "/cache"));
}

TEST_F(Cache, WhatIsNotThereIsNamed) {
  setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  const auto missing = find_model("org/other");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_EQ(missing.error().param, "model");
  EXPECT_NE(missing.error().message.find(folder_.path() + "/models--org--other"), std::string::npos);
  for (const char* revision : {"", "../../elsewhere", "nothing", ".."}) {
    keep(folder_.path(), revision);
    EXPECT_FALSE(find_model("org/small-model.v1").ok()) << revision;
  }
}

TEST_F(Cache, WhatIsNoNameIsTakenForAFolder) {
  for (const char* path : {"/no/such", "./org/name", "../x", "a/b/c", "org/", "nothing"})
    EXPECT_EQ(find_model(path)->path, path);
}

}  // namespace
}  // namespace krait
