// What a process finds out about its machine, and that it ends when it is asked to twice.
#include "common/base/process.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "common/base/limits.h"
#include "common/base/settings.h"
#include "common/base/thread.h"
#include "common/base/units.h"
#include "tests/support/golden.h"

namespace krait {
namespace {

struct Memory : testing::Test {
  /// A cgroup that may use `most` and uses `used`, of which the kernel may drop `droppable`.
  void cgroup(const std::string& name, const std::string& most, int64_t used, int64_t droppable = 0) {
    std::filesystem::create_directories(files.cgroups + name);
    scratch.write("cg" + name + "/memory.max", most + "\n");
    scratch.write("cg" + name + "/memory.current", fmt::format("{}\n", used));
    scratch.write("cg" + name + "/memory.stat", fmt::format("anon 5\ninactive_file {}\nactive_file 7\n", droppable));
  }

  int64_t free_bytes() const { return available_memory_bytes(files); }

  test::ScratchDir scratch;
  MemoryFiles files{scratch.write("meminfo", "MemTotal:  9000 kB\nMemAvailable:    4096 kB\nBuffers: 1 kB\n"),
                    scratch.write("own", "0::/system/krait\n"), scratch.path() + "/cg"};
};

TEST_F(Memory, TheMachinesWhereNoCgroupLimits) {
  EXPECT_EQ(free_bytes(), 4 * kMiB);
  cgroup("/system/krait", "max", 1'000);
  EXPECT_EQ(free_bytes(), 4 * kMiB);
}

TEST_F(Memory, TheLeastThatOurOwnCgroupOrOneAboveItLeaves) {
  cgroup("/system/krait", "3000000", 1'000'000);
  EXPECT_EQ(free_bytes(), 2'000'000);
  cgroup("/system", "1500000", 1'000'000);
  EXPECT_EQ(free_bytes(), 500'000);
  cgroup("", "1200000", 1'100'000);  // in a container the root is our own
  EXPECT_EQ(free_bytes(), 100'000);
  scratch.write("own", "0::/\n");
  EXPECT_EQ(free_bytes(), 100'000);
}

TEST_F(Memory, FilePagesThatMayBeDroppedAreFree) {
  cgroup("/system/krait", "3000000", 2'500'000, 1'000'000);
  EXPECT_EQ(free_bytes(), 1'500'000);
  cgroup("/system/krait", "1000", 2'500'000);
  EXPECT_EQ(free_bytes(), 0);
}

TEST_F(Memory, FilesThatSayNothingLimitNothing) {
  scratch.write("own", "12:memory:/version1\n");
  cgroup("", "word", -1);
  EXPECT_EQ(free_bytes(), 4 * kMiB);
  files.meminfo = scratch.write("meminfo", "MemAvailable: lots kB\n");
  EXPECT_GT(free_bytes(), int64_t{1} << 60);
}

TEST(Addresses, AreLimitedByTheirOwnLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(address_space_left_bytes(), std::numeric_limits<int64_t>::max());
  }
  constexpr int64_t kLeft = int64_t{1} << 40;  // more than a sanitizer's shadow would miss
  const rlimit some{std::min<rlim_t>(rlim_t{1} << 46, before.rlim_max), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &some), 0);
  const int64_t left = address_space_left_bytes();
  setrlimit(RLIMIT_AS, &before);
  EXPECT_LT(left, static_cast<int64_t>(some.rlim_cur));
  EXPECT_GT(left, kLeft);
}

TEST(Descriptors, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{std::min<rlim_t>(100, before.rlim_max), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const int64_t raised = raise_descriptor_limit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised, static_cast<int64_t>(std::min<rlim_t>(before.rlim_max, INT32_MAX)));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Descriptors, ConnectionsAreAsManyAsDescriptorsAllow) {
  constexpr int64_t kBeside = limits::kDescriptorsBeside;
  EXPECT_EQ(connections_within(4096 + kBeside, 4096).value(), 4096);
  EXPECT_EQ(connections_within(1'000'000, 4096).value(), 4096);
  EXPECT_EQ(connections_within(4095 + kBeside, 4096).value(), 4095);
  EXPECT_EQ(connections_within(limits::kLeastConnections + kBeside, 4096).value(), limits::kLeastConnections);
  for (const int64_t few : {limits::kLeastConnections + kBeside - 1, int64_t{0}}) {
    const auto refused = connections_within(few, 4096);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::kResourceExhausted);
    EXPECT_NE(refused.error().message.find(fmt::format("{} open files", few)), std::string::npos);
  }
}

void is_busy_whatever_it_is_told() {
  const StopWatch watch(0, [] {});
  kill(getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  kill(getpid(), SIGINT);
  std::this_thread::sleep_for(std::chrono::nanoseconds(6 * limits::kHardStopNs));
}

void writes_where_nobody_reads_and_nothing_fits() {
  const StopWatch watch(0, [] {});
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) _exit(2);
  close(ends[0]);
  if (write(ends[1], "x", 1) != -1 || errno != EPIPE) _exit(3);
  const rlimit nothing{0, 0};
  setrlimit(RLIMIT_FSIZE, &nothing);
  FILE* const file = std::tmpfile();
  if (file == nullptr) _exit(4);
  _exit(write(fileno(file), "x", 1) == -1 && errno == EFBIG ? 0 : 5);
}

TEST(StopWatchDeathTest, AWriteThatFailsIsAnErrorAndNotAnEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(writes_where_nobody_reads_and_nothing_fits(), testing::ExitedWithCode(0), "");
}

template <class Thrown>
void nobody_catches(const Thrown& thrown) {
  install_last_words();
  std::thread([&] { throw thrown; }).join();
}

TEST(LastWordsDeathTest, WhatNobodyCatchesIsSaidBeforeTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto killed = testing::KilledBySignal(SIGABRT);
  EXPECT_EXIT(nobody_catches(std::bad_alloc()), killed, "nothing caught: out of memory\n");
  EXPECT_EXIT(nobody_catches(std::runtime_error("a reason")), killed, "nothing caught: a reason\n");
  EXPECT_EXIT(nobody_catches(std::runtime_error(std::string(5000, 'x'))), killed, "nothing caught: x+\n");
  EXPECT_EXIT(nobody_catches(7), killed, "of an unknown kind\n");
}

TEST(RunProgram, AnExceptionIsAnEndWithWordsAndCode1) {
  for (const auto& [serve, words] :
       {std::pair<Status (*)(), std::string>{[]() -> Status { throw std::bad_alloc(); }, "stopped: out of memory\n"},
        {[]() -> Status { throw std::runtime_error("a reason"); }, "stopped: a reason\n"}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_program("krait-test", true, serve), 1);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(words), std::string::npos) << words;
  }
}

TEST(StartThread, SaysWhatItWasFor) {
  pthread_attr_t usual, vast;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&vast), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&vast, size_t{1} << 50), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&vast), 0);
  std::string words;
  try {
    start_thread("a test", [] {}).join();
  } catch (const std::system_error& error) {
    words = error.what();
  }
  pthread_setattr_default_np(&usual);
  EXPECT_EQ(words, "cannot start a thread for a test: Resource temporarily unavailable");
  int ran = 0;
  start_thread("a test", [&] { ++ran; }).join();
  EXPECT_EQ(ran, 1);
}

void is_the_child_of_another() {
  const StopWatch watch(getppid() + 1, [] { _exit(0); });
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

TEST(StopWatchDeathTest, WhoStopsBecauseItsParentIsAnotherSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(is_the_child_of_another(), testing::ExitedWithCode(0), "its parent is process .* as --watch-parent-pid");
}

TEST(StopWatchDeathTest, WhoIsBusyIsEndedAWhileAfterTheSecondSignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(is_busy_whatever_it_is_told(), testing::ExitedWithCode(1), "after the second request to stop");
}

}  // namespace
}  // namespace krait
