// Ranks as real processes: their sums, their deaths, and what is left in /dev/shm.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "common/base/units.h"
#include "shard_server/collectives/segment.h"
#include "shard_server/collectives/shared_memory.h"
#include "tests/support/rank_processes.h"

namespace krait::collectives {
namespace {

class SharedMemory : public testing::Test {
 protected:
  std::string prefix() const { return std::string(kSegmentPrefix) + "test-" + std::to_string(getpid()); }
  int segments_left() const {
    int left = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      left += entry.path().filename().string().starts_with(prefix()) ? 1 : 0;
    }
    return left;
  }
  void TearDown() override { EXPECT_EQ(segments_left(), 0); }
};

TEST_F(SharedMemory, ProcessesSum) {
  for (const int world : {1, 2, 3, 5}) {
    const Options options = group_of_processes(world);
    std::vector<pid_t> children;
    for (int rank = 0; rank < world; ++rank) {
      children.push_back(
          fork_rank(make_shared_memory_communicator, options, rank, [](Communicator& c) { return sum_often(c, 300); }));
    }
    for (const pid_t child : children)
      EXPECT_EQ(exit_code(child), 0);
  }
}

TEST_F(SharedMemory, ARankKilledInTheMiddleFailsTheOthersWithinTheDeadline) {
  for (const int killed : {0, 2}) {
    Options options = group_of_processes(3);
    options.timeout_ns = 1000 * kMs;  // forming and each operation, on a busy machine
    std::vector<pid_t> children;
    void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto* const running = new (shared) std::atomic<int>(0);
    for (int rank = 0; rank < 3; ++rank) {
      children.push_back(
          fork_rank(make_shared_memory_communicator, options, rank, [running](Communicator& communicator) {
            if (sum_often(communicator, 10) != 0) return 3;
            running->fetch_add(1);
            const int result = sum_often(communicator, 1'000'000'000);
            // The failure is known, and is for good.
            const bool dead = communicator.health().error().code == Errc::kDeadlineExceeded;
            return result == 1 && dead && !communicator.barrier().ok() ? 42 : result;
          }));
    }
    for (int tries = 0; running->load() < 3 && tries < 10'000; ++tries)
      usleep(1000);
    ASSERT_EQ(running->load(), 3);
    usleep(10'000);
    const int64_t killed_ns = SteadyClock().now_ns();
    ASSERT_EQ(kill(children[static_cast<size_t>(killed)], SIGKILL), 0);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(exit_code(children[static_cast<size_t>(rank)]), rank == killed ? 1000 + SIGKILL : 42) << rank;
    }
    EXPECT_LT(SteadyClock().now_ns() - killed_ns, 20 * kSecond);  // by the deadline, however busy the machine is
    munmap(shared, 4096);
  }
}

TEST_F(SharedMemory, ALeaderFreesTheRanksOfADeadOneByAbort) {
  Options options = group_of_processes(3);
  std::vector<pid_t> children;
  for (int rank = 1; rank < 3; ++rank) {
    children.push_back(fork_rank(make_shared_memory_communicator, options, rank, [](Communicator& communicator) {
      Status status = communicator.barrier();
      if (communicator.rank() == 2) raise(SIGKILL);
      float value = 1;
      if (status.ok()) status = communicator.all_reduce(1, 1, &value, &value);
      return !status.ok() && status.error().code == Errc::kUnavailable &&
                     status.error().message.find("rank 2 is gone") != std::string::npos
                 ? 42
                 : 1;
    }));
  }
  auto leader = make_shared_memory_communicator(options);
  ASSERT_TRUE(leader.ok()) << to_string(leader.error());
  ASSERT_TRUE((*leader)->barrier().ok());
  EXPECT_EQ(exit_code(children[1]), 1000 + SIGKILL);
  (*leader)->abort("rank 2 is gone");
  EXPECT_EQ(exit_code(children[0]), 42);
}

TEST_F(SharedMemory, RankZeroMayComeLast) {
  const Options options = group_of_processes(2);
  const pid_t other =
      fork_rank(make_shared_memory_communicator, options, 1, [](Communicator& c) { return sum_often(c, 3); });
  usleep(50'000);
  EXPECT_EQ(exit_code(fork_rank(make_shared_memory_communicator, options, 0,
                                [](Communicator& c) { return sum_often(c, 3); })),
            0);
  EXPECT_EQ(exit_code(other), 0);
}

TEST_F(SharedMemory, ThereIsNoNameOnceAllHaveCome) {
  const Options options = group_of_processes(2);
  const pid_t other =
      fork_rank(make_shared_memory_communicator, options, 1, [](Communicator& c) { return c.barrier().ok() ? 0 : 1; });
  auto made = make_shared_memory_communicator(options);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(segments_left(), 0);
  EXPECT_TRUE((*made)->barrier().ok());
  EXPECT_EQ(exit_code(other), 0);
}

TEST_F(SharedMemory, AMissingRankIsADeadlineForTheOthersAndLeavesNoName) {
  for (const int present : {0, 1}) {
    Options options = group_of_processes(2);
    options.rank = present;
    options.timeout_ns = 50 * kMs;
    const auto made = make_shared_memory_communicator(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Errc::kDeadlineExceeded) << to_string(made.error());
  }
}

TEST_F(SharedMemory, WhatADeadMakerLeftIsRemovedByTheNextOne) {
  Options options = group_of_processes(2);
  const std::string name = segment_name(options.name, options.epoch);
  const pid_t leader = fork_rank(make_shared_memory_communicator, options, 0,
                                 [](Communicator&) { return 0; });  // waits for a rank that never comes
  for (int tries = 0; segments_left() == 0 && tries < 5000; ++tries)
    usleep(1000);
  ASSERT_EQ(segments_left(), 1);
  EXPECT_FALSE(remove_if_stale(name)) << "its maker lives";
  remove_stale_segments();
  EXPECT_EQ(segments_left(), 1);
  ASSERT_EQ(kill(leader, SIGKILL), 0);
  EXPECT_EQ(exit_code(leader), 1000 + SIGKILL);
  EXPECT_EQ(segments_left(), 1);
  auto next = make_shared_memory_communicator(group_of_processes(1));
  EXPECT_TRUE(next.ok());
  EXPECT_EQ(segments_left(), 0);
}

TEST_F(SharedMemory, ANameInUseIsRefusedAndAStaleOneReplaced) {
  const std::string name = segment_name("test-" + std::to_string(getpid()), random_u64());
  {
    auto first = Segment::create(name, 4096);
    ASSERT_TRUE(first.ok()) << to_string(first.error());
    const auto second = Segment::create(name, 4096);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Errc::kUnavailable);
  }
  std::ofstream("/dev/shm/" + name) << "left by a run that is gone";
  const auto third = Segment::create(name, 4096);
  ASSERT_TRUE(third.ok()) << to_string(third.error());
  EXPECT_EQ(third->data()[0], std::byte{0});
}

TEST_F(SharedMemory, TooLittleSpaceIsAnErrorThatNamesTheBytes) {
  struct statvfs space {};
  ASSERT_EQ(statvfs("/dev/shm", &space), 0);
  // More than the whole of it, so that the kernel refuses at once and no page is taken from others.
  const int64_t bytes = static_cast<int64_t>(space.f_blocks * space.f_frsize) + kGiB;
  const auto made = Segment::create(segment_name("test-" + std::to_string(getpid()), random_u64()), bytes);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Errc::kResourceExhausted);
  EXPECT_NE(made.error().message.find(std::to_string(bytes)), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().message.find("are free"), std::string::npos);
}

TEST_F(SharedMemory, OpenSeesNothingThatIsNotThereOrNotWhole) {
  const std::string name = segment_name("test-" + std::to_string(getpid()), random_u64());
  auto none = Segment::open(name, 4096);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  const auto made = Segment::create(name, 4096);
  ASSERT_TRUE(made.ok());
  auto larger = Segment::open(name, 8192);
  ASSERT_TRUE(larger.ok());
  EXPECT_FALSE(larger->has_value());
  auto same = Segment::open(name, 4096);
  ASSERT_TRUE(same.ok());
  ASSERT_TRUE(same->has_value());
  made->data()[7] = std::byte{9};
  EXPECT_EQ((*same)->data()[7], std::byte{9});
}

}  // namespace
}  // namespace krait::collectives
