// What a process finds out about its machine, and that it ends when it is asked to twice.
#include "common/base/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "common/base/limits.h"
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

TEST(StopWatchDeathTest, WhoIsBusyIsEndedAWhileAfterTheSecondSignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(is_busy_whatever_it_is_told(), testing::ExitedWithCode(1), "after the second request to stop");
}

}  // namespace
}  // namespace krait
