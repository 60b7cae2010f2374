#include "kernels/device/stream.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/device/cores.h"

namespace krait::kernels {
namespace {

TEST(StreamTest, EveryWorkerRunsOnceEachTime) {
  for (const bool may_spin : {false, true}) {
    for (const int threads : {1, 2, 3, 7}) {
      Stream stream({.threads = threads, .may_spin = may_spin});
      ASSERT_EQ(stream.threads(), threads);
      std::vector<int64_t> calls(static_cast<size_t>(threads), 0);  // plain: the stream must order all accesses
      for (int round = 0; round < 2000; ++round) {
        stream.run([&](int worker) { ++calls[static_cast<size_t>(worker)]; });
      }
      for (const int64_t count : calls)
        EXPECT_EQ(count, 2000);
    }
  }
}

TEST(StreamTest, WorkersRunAtTheSameTime) {
  Stream stream({.threads = 3});
  std::atomic<int> arrived = 0;
  stream.run([&](int) {
    arrived.fetch_add(1);
    while (arrived.load() < 3)
      std::this_thread::yield();  // ends only when all three are inside
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(StreamTest, SleepingTeamWakesUp) {
  Stream stream({.threads = 2});
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
    int sum = 0;
    std::atomic<int> other = 0;
    stream.run([&](int worker) {
      if (worker == 0) {
        sum = 1;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the caller goes to sleep too
        other = 2;
      }
    });
    EXPECT_EQ(sum + other.load(), 3);
  }
}

TEST(StreamTest, IdleTeamUsesNoProcessorTime) {
  Stream stream({.threads = 4});
  stream.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const int64_t used_ns = (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  // Three spinning workers would use hundreds of milliseconds on any machine.
  EXPECT_LT(used_ns, 20'000'000);
}

TEST(StreamTest, ParallelForCoversTheRangeOnceInGrains) {
  for (const int threads : {1, 2, 3, 8}) {
    Stream stream({.threads = threads, .may_spin = false});
    for (const int64_t count : {0, 1, 2, 5, 16, 17, 63, 64, 1000}) {
      for (const int64_t grain : {1, 2, 16, 64}) {
        std::vector<int> visits(static_cast<size_t>(count), 0);
        std::atomic<int> ranges = 0;
        std::atomic<bool> aligned = true;
        stream.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          ranges.fetch_add(1);
          if (begin % grain != 0 || (end % grain != 0 && end != count) || begin >= end) aligned = false;
          for (int64_t i = begin; i < end; ++i)
            ++visits[static_cast<size_t>(i)];
        });
        EXPECT_TRUE(aligned);
        EXPECT_LE(ranges.load(), threads);
        for (const int visited : visits)
          ASSERT_EQ(visited, 1) << count << " " << grain << " " << threads;
      }
    }
  }
}

TEST(StreamTest, WorkersAreBoundToTheirCoresAndTheCallerIsReleased) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  {
    const int first = before.front(), last = before.back();
    Stream stream({.threads = 3, .cpus = {last, first}});
    std::vector<std::vector<int>> cores(3);
    stream.run([&](int worker) { cores[static_cast<size_t>(worker)] = allowed_cpus(); });
    EXPECT_EQ(cores, (std::vector<std::vector<int>>{{last}, {first}, {last}}));
  }
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(StreamDeathTest, NestedUseIsAProgrammersError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Stream stream({.threads = 2});
        stream.run([&](int worker) {
          if (worker == 0) stream.run([](int) {});
        });
      },
      "busy");
}

TEST(StreamTest, KernelsCountTheirTimeWhenAsked) {
  Stream stream({.threads = 2});
  KernelTimes times;
  const auto spend = [&](KernelKind kind) {
    const KernelTimer timer(stream, kind);
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  };
  spend(KernelKind::kScan);
  EXPECT_EQ(times.ns, KernelTimes{}.ns) << "nobody has asked";
  stream.time_kernels(&times);
  spend(KernelKind::kScan);
  spend(KernelKind::kNorm);
  stream.time_kernels(nullptr);
  const KernelTimes before = times;
  spend(KernelKind::kGemm);
  EXPECT_EQ(times.ns, before.ns) << "nobody asks any more";
  for (size_t kind = 0; kind < kKernelKinds; ++kind) {
    const bool ran = kind == static_cast<size_t>(KernelKind::kScan) || kind == static_cast<size_t>(KernelKind::kNorm);
    EXPECT_EQ(times.ns[kind] >= 10'000, ran) << kKernelKindNames[kind];
  }
}

}  // namespace
}  // namespace krait::kernels
