#include "common/base/file.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/golden.h"

namespace krait {
namespace {

using test::ScratchDir;

std::string read_at(const InputFile& file, int64_t offset, size_t bytes) {
  std::string out(bytes, '\0');
  const Status status = file.read(offset, std::as_writable_bytes(std::span(out)));
  return status.ok() ? out : to_string(status.error());
}

/// The kernel's clock for times of files ticks every few milliseconds.
void next_tick() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(InputFile, ReadsAnywhereAndRefusesWhatLiesBehindTheEnd) {
  const ScratchDir folder;
  const std::string path = folder.write("f", "0123456789");
  const auto file = InputFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 10);
  EXPECT_EQ(read_at(*file, 3, 4), "3456");
  EXPECT_EQ(read_at(*file, 10, 0), "");
  std::array<std::byte, 4> out{};
  for (const int64_t offset : {7, 10, 1'000'000}) {
    const Status status = file->read(offset, out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Errc::kCorrupt);
    EXPECT_EQ(status.error().param, path);
  }
}

TEST(InputFile, WhateverIsDoneToItIsSeen) {
  const auto change = [](const std::function<void(const std::string&)>& what) {
    const ScratchDir folder;
    const std::string path = folder.write("f", "0123456789");
    const auto file = InputFile::open(path);
    EXPECT_TRUE(file->check_unchanged().ok());
    next_tick();
    what(path);
    const Status status = file->check_unchanged();
    if (!status.ok()) {
      EXPECT_EQ(status.error().code, Errc::kCorrupt);
      EXPECT_EQ(status.error().param, path);
      EXPECT_NE(status.error().message.find(path), std::string::npos);
    }
    return !status.ok();
  };
  EXPECT_FALSE(change([](const std::string&) {}));
  EXPECT_TRUE(change([](const std::string& path) { std::fstream(path, std::ios::in | std::ios::out) << "X"; }));
  EXPECT_TRUE(change([](const std::string& path) { std::fstream(path, std::ios::in | std::ios::out) << "0"; }));
  EXPECT_TRUE(change([](const std::string& path) { std::ofstream(path, std::ios::app) << "X"; }));
  EXPECT_TRUE(change([](const std::string& path) { std::filesystem::resize_file(path, 4); }));
  // Its name, mode and links are no part of it.
  EXPECT_FALSE(change([](const std::string& path) { chmod(path.c_str(), 0400); }));
  EXPECT_FALSE(change([](const std::string& path) { std::filesystem::remove(path); }));
}

TEST(InputFile, AnotherFileUnderItsNameDoesNotMatter) {
  const ScratchDir folder;
  const std::string path = folder.write("f", "old");
  const auto file = InputFile::open(path);
  next_tick();
  std::filesystem::rename(folder.write("g", "other"), path);
  EXPECT_TRUE(file->check_unchanged().ok());
  EXPECT_EQ(read_at(*file, 0, 3), "old");
}

TEST(InputFile, WhatIsNoFileIsNamed) {
  const ScratchDir folder;
  const auto error_of = [&](const std::string& name) {
    const auto file = InputFile::open(folder.path() + "/" + name);
    EXPECT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.error().param, folder.path() + "/" + name);
    return file.error();
  };
  EXPECT_EQ(error_of("missing").code, Errc::kNotFound);
  EXPECT_NE(error_of(".").message.find("not a regular file"), std::string::npos);
  ASSERT_EQ(mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_NE(error_of("fifo").message.find("not a regular file"), std::string::npos);
  std::filesystem::create_symlink("loop", folder.path() + "/loop");
  EXPECT_NE(error_of("loop").message.find("symbolic links"), std::string::npos);
  std::filesystem::create_symlink("nowhere", folder.path() + "/dangling");
  EXPECT_EQ(error_of("dangling").code, Errc::kNotFound);
  EXPECT_TRUE(entry_exists(folder.path() + "/dangling"));
  EXPECT_FALSE(entry_exists(folder.path() + "/missing"));
}

TEST(InputFile, WhatMayNotBeReadIsNamed) {
  const ScratchDir folder;
  const std::string path = folder.write("secret", "x");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root reads everything; this thread opens files as somebody else meanwhile.
  const int before = setfsuid(geteuid() == 0 ? 65'534 : geteuid());
  const auto file = InputFile::open(path);
  setfsuid(static_cast<uid_t>(before));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Errc::kIo);
  EXPECT_NE(file.error().message.find("ermission denied"), std::string::npos) << file.error().message;
}

TEST(ReadTextFile, TakesAllOfItAndNoMoreThanTheLimit) {
  const ScratchDir folder;
  const std::string path = folder.write("f", std::string("a\0b", 3));
  EXPECT_EQ(*read_text_file(path, 3), std::string("a\0b", 3));
  EXPECT_EQ(*read_text_file(folder.write("empty", ""), 3), "");
  const auto larger = read_text_file(path, 2);
  ASSERT_FALSE(larger.ok());
  EXPECT_EQ(larger.error().code, Errc::kTooLarge);
  EXPECT_EQ(larger.error().param, path);
}

}  // namespace
}  // namespace krait
