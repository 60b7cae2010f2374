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
      EXPECT_TRUE(executor.post("c", [&] { ++done; }));
  }
  EXPECT_EQ(done, 1000);
}

TEST(Executor, RefusesWhatIsTooMuch) {
  std::mutex gate;
  std::atomic<bool> running = false;
  std::atomic<int> done = 0;
  gate.lock();
  Executor executor(1, 2);
  ASSERT_TRUE(executor.post("c", [&] {
    running = true;
    const std::scoped_lock wait(gate);
    ++done;
  }));
  while (!running)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post("c", [&] { ++done; }));
  EXPECT_TRUE(executor.post("c", [&] { ++done; }));
  EXPECT_FALSE(executor.post("c", [&] { ++done; }));
  gate.unlock();
  while (done < 3)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post("c", [] {}));
}

TEST(Executor, ClientsTakeTurnsAndAFloodShutsNobodyOut) {
  std::mutex gate;
  std::atomic<bool> running = false;
  std::string order;
  gate.lock();
  {
    Executor executor(1, 8);
    ASSERT_TRUE(executor.post("hog", [&] {
      running = true;
      const std::scoped_lock wait(gate);
    }));
    while (!running)
      std::this_thread::yield();
    int taken = 0;
    while (executor.post("hog", [&] { order += 'h'; }))
      ++taken;
    EXPECT_EQ(taken, 8);
    EXPECT_TRUE(executor.post("modest", [&] { order += 'm'; }));
    EXPECT_FALSE(executor.post("modest", [&] { order += 'm'; })) << "the reserve of eight is one";
    gate.unlock();
  }
  EXPECT_EQ(order, "hmhhhhhhh");
}

TEST(Executor, BytesAreSharedLikePlaces) {
  std::mutex gate;
  std::atomic<bool> running = false;
  gate.lock();
  Executor executor(1, 1000, 800);
  ASSERT_TRUE(executor.post("hog", [&] {
    running = true;
    const std::scoped_lock wait(gate);
  }));
  while (!running)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post(
      "hog", [] {}, 800));
  EXPECT_FALSE(executor.post(
      "hog", [] {}, 1));
  EXPECT_TRUE(executor.post(
      "modest", [] {}, 50));
  EXPECT_FALSE(executor.post(
      "modest", [] {}, 50))
      << "nothing would be left";
  EXPECT_TRUE(executor.post(
      "third", [] {}, 50));
  gate.unlock();
}

TEST(Executor, SurvivesWorkThatThrows) {
  std::atomic<int> done = 0;
  {
    Executor executor(1, 10);
    executor.post("c", [] { throw std::runtime_error("broken"); });
    executor.post("c", [&] { ++done; });
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace krait::api
