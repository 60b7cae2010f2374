// What may be a group's name and a run directory, and what the file system tells of an address.
#include "common/wire/addresses.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/base/limits.h"
#include "tests/support/golden.h"

namespace krait::wire {
namespace {

TEST(Addresses, AGroupsNameCanBePartOfAFilesName) {
  const std::string longest(limits::kMaxGroupNameBytes, 'g');
  for (const std::string& good : {std::string("g0"), std::string("A-b_9"), std::string("-"), longest}) {
    EXPECT_TRUE(check_group_name(good).ok()) << good;
  }
  for (const std::string& bad : {std::string(), longest + "g", std::string(".."), std::string("a/b"), std::string("ü"),
                                 std::string("a b"), std::string("a\0b", 3)}) {
    const krait::Status status = check_group_name(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().param, "group");
    EXPECT_NE(status.error().message.find("'" + bad + "'"), std::string::npos) << status.error().message;
  }
}

TEST(Addresses, ARunDirIsAFolderOrNotThereYet) {
  const test::ScratchDir scratch;
  std::filesystem::create_symlink("loop", scratch.path() + "/loop");
  std::filesystem::create_directory_symlink(scratch.path(), scratch.path() + "/link");
  const std::string file = scratch.write("file", "");
  EXPECT_TRUE(check_run_dir(scratch.path()).ok());
  EXPECT_TRUE(check_run_dir(scratch.path() + "/link").ok());
  EXPECT_TRUE(check_run_dir(scratch.path() + "/later").ok());
  for (const auto& [bad, why] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", "empty"},
           {"/dev/null", "not a folder"},
           {file, "not a folder"},
           {file + "/in", "Not a directory"},
           {scratch.path() + "/loop", "symbolic links"},
           {"/tmp/" + std::string(300, 'x'), "too long"},
       }) {
    const krait::Status status = check_run_dir(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().param, "run-dir");
    EXPECT_NE(status.error().message.find(why), std::string::npos) << status.error().message;
  }
}

TEST(Addresses, WhatIsAtAnAddressIsSaid) {
  const test::ScratchDir scratch;
  const std::string address = leader_address(scratch.path(), "g0");
  const std::string path = address.substr(std::string_view("ipc://").size());
  EXPECT_EQ(why_silent(address), "there is no socket there");
  std::filesystem::create_directory(path);
  EXPECT_EQ(why_silent(address), "what is there is no socket");
  std::filesystem::remove(path);
  scratch.write("g0.ipc", "");
  EXPECT_EQ(why_silent(address), "what is there is no socket");
  EXPECT_EQ(why_silent(leader_address(path, "g0")), "no socket can be there (Not a directory)");
  std::filesystem::remove(path);

  const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(path.size(), sizeof(name.sun_path));
  std::copy(path.begin(), path.end(), name.sun_path);
  ASSERT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  EXPECT_EQ(why_silent(address), "nothing was heard from there");
  close(bound);
  EXPECT_EQ(why_silent("tcp://127.0.0.1:1"), "nothing was heard from there");
}

}  // namespace
}  // namespace krait::wire
