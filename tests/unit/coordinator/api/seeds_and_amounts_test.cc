// Whose chance is whose among several prompts, and bounds on what one request makes the coordinator hold.
#include <atomic>
#include <mutex>
#include <thread>

#include "common/base/limits.h"
#include "coordinator/api/executor.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {
namespace {

TEST(Seeds, WithoutOneEqualPromptsDoNotShareTheirChance) {
  const auto spec = read_ok(body_of(R"("n":2)", "[[5,6],[5,6]]")).generation();
  ASSERT_EQ(spec.sequences(), 4u);
  const auto sampling = [&](size_t sequence) { return spec.submit(sequence).sampling; };
  EXPECT_EQ(sampling(0).seed, sampling(1).seed) << "choices of a prompt differ by their index";
  EXPECT_NE(sampling(0).choice, sampling(1).choice);
  EXPECT_NE(sampling(0).seed, sampling(2).seed);
}

TEST(Seeds, AGivenOneIsThatOfEveryPrompt) {
  const auto spec = read_ok(body_of(R"("n":2,"seed":9)", "[[5,6],[5,6]]")).generation();
  for (size_t sequence = 0; sequence < 4; ++sequence)
    EXPECT_EQ(spec.submit(sequence).sampling.seed, 9u);
}

TEST(Amounts, LogprobsOfAllChoicesTogetherAreBounded) {
  std::string ids = "[1";
  for (int i = 1; i < 20'000; ++i)
    ids += ",1";
  ids += "]";
  read_ok(body_of(R"("echo":true,"logprobs":20,"n":3)", ids));
  EXPECT_EQ(refused(body_of(R"("echo":true,"logprobs":20,"n":4)", ids)), "logprobs");
  read_ok(body_of(R"("logprobs":20,"n":4)", ids));
}

TEST(Executor, BoundsTheBytesThatWait) {
  std::mutex gate;
  std::atomic<bool> running = false;
  gate.lock();
  Executor executor(1, 100, 1000);
  ASSERT_TRUE(executor.post("c", [&] {
    running = true;
    const std::scoped_lock wait(gate);
  }));
  while (!running)
    std::this_thread::yield();
  EXPECT_TRUE(executor.post(
      "c", [] {}, 5000))
      << "alone, whatever its size";
  EXPECT_FALSE(executor.post(
      "c", [] {}, 1));
  gate.unlock();
}

}  // namespace
}  // namespace krait::api
