#include "coordinator/api/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace krait::api {
namespace {

TEST(Executor, RunsWhatWaitsBeforeItEnds) {
  std::atomic<int> done = 0;
  {
    Executor executor(3, 1000);
    for (int i = 0; i < 1000; ++i)
      EXPECT_TRUE(executor.post([&] { ++done; }));
  }
  EXPECT_EQ(done, 1000);
}

TEST(Executor, RefusesWhatIsTooMuch) {
  std::mutex gate;
  std::atomic<bool> running = false;
  std::atomic<int> done = 0;
  gate.lock();
  Executor executor(1, 2);
  ASSERT_TRUE(executor.post([&] {
    running = true;
    const std::scoped_lock wait(gate);
    ++done;
  }));
  while (!running)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post([&] { ++done; }));
  EXPECT_TRUE(executor.post([&] { ++done; }));
  EXPECT_FALSE(executor.post([&] { ++done; }));
  gate.unlock();
  while (done < 3)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post([] {}));
}

TEST(Executor, SurvivesWorkThatThrows) {
  std::atomic<int> done = 0;
  {
    Executor executor(1, 10);
    executor.post([] { throw std::runtime_error("broken"); });
    executor.post([&] { ++done; });
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace krait::api
