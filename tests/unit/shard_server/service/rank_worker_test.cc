// One rank's commands: what is answered, what is dropped, what an abort ends. A group of two threads of this process.
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "shard_server/collectives/loopback.h"
#include "shard_server/service/engine_rank.h"
#include "shard_server/service/rank_worker.h"
#include "tests/support/golden.h"

namespace krait::test {
namespace {

std::shared_ptr<collectives::LoopbackHub> hub_of(const std::string& bootstrap) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<collectives::LoopbackHub>> hubs;
  const std::scoped_lock lock(mutex);
  auto& hub = hubs[bootstrap];
  if (hub == nullptr) hub = collectives::make_loopback_hub();
  return hub;
}

class Ranks : public testing::Test {
 protected:
  void start(int world) {
    auto checkpoint = Checkpoint::open(source_path("deploy/demo_model")).value();
    for (int rank = 0; rank < world; ++rank) {
      shard::RankOptions options;
      options.rank = rank;
      options.world = world;
      options.slots = 2;
      options.hub_of = hub_of;
      auto model = std::make_unique<shard::EngineRank>(options, checkpoint, clock);
      workers.push_back(std::make_unique<shard::RankWorker>(
          std::make_unique<shard::RankExecutor>(static_cast<uint32_t>(rank), std::move(model)),
          [this](wire::Message answer) {
            const std::scoped_lock lock(mutex);
            answers.push_back(std::move(answer));
          }));
    }
  }

  wire::Form form(uint64_t epoch) const {
    wire::Form form;
    form.epoch = epoch;
    form.world = static_cast<uint32_t>(workers.size());
    form.path = kernels::cpu_path_name(kernels::CpuPath::kPortable);
    form.codec = "exact";
    form.bootstrap =
        fmt::format("loopback:{}-{}", testing::UnitTest::GetInstance()->current_test_info()->name(), epoch);
    return form;
  }

  static wire::Step one_token(uint64_t epoch, uint64_t number) {
    wire::Step step;
    step.epoch = epoch;
    step.step = number;
    step.deadline_ms = 30'000;
    if (number == 1) step.admissions.push_back({0, 1, {}});
    auto& run = step.runs.emplace_back();
    run.in_slot = number == 1 ? -1 : 0;
    run.position = static_cast<uint32_t>(number) - 1;
    if (number == 1) run.tokens = {5};
    run.sample = true;
    return step;
  }

  void post_to_all(const wire::Message& message) {
    for (auto& worker : workers)
      ASSERT_TRUE(worker->post(message));
  }

  void wait() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (auto& worker : workers) {
      while (!worker->idle()) {
        ASSERT_LT(std::chrono::steady_clock::now(), until) << "a rank does not come to an end";
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  template <class T>
  std::vector<T> answered() {
    const std::scoped_lock lock(mutex);
    std::vector<T> found;
    for (const auto& answer : answers) {
      if (const auto* it = std::get_if<T>(&answer)) found.push_back(*it);
    }
    return found;
  }

  SteadyClock clock;
  std::mutex mutex;
  std::vector<wire::Message> answers;
  std::vector<std::unique_ptr<shard::RankWorker>> workers;  // last: their threads use what is above
};

TEST_F(Ranks, FormLoadAndStepAreAnswered) {
  start(2);
  post_to_all(form(1));
  post_to_all(wire::Load{1, 3});
  post_to_all(one_token(1, 1));
  post_to_all(one_token(1, 2));
  wait();
  const auto readies = answered<wire::Ready>();
  ASSERT_EQ(readies.size(), 2u);
  EXPECT_EQ(readies[0].slots, 3u) << "what Load asks for goes before the rank's own number";
  EXPECT_EQ(readies[0].numerics_id, readies[1].numerics_id);
  const auto dones = answered<wire::StepDone>();
  ASSERT_EQ(dones.size(), 4u);
  std::map<uint64_t, std::set<uint64_t>> digests;
  size_t samples = 0;
  for (const auto& done : dones) {
    digests[done.step].insert(done.digest);
    samples += done.samples.size();
    EXPECT_TRUE(done.rank == 0 || done.samples.empty());
  }
  EXPECT_EQ(samples, 2u) << "rank 0's alone";
  EXPECT_EQ(digests[1].size(), 1u);
  EXPECT_EQ(digests[2].size(), 1u);
  EXPECT_NE(digests[1], digests[2]);
  const auto figures = workers[1]->figures();
  EXPECT_EQ(figures.numerics_id, readies[0].numerics_id);
  EXPECT_GT(figures.weight_bytes, 0);
  EXPECT_EQ(figures.collective_plan, "exact");
  EXPECT_GT(figures.collectives[0][0].operations, 0);
}

TEST_F(Ranks, CommandsOfAnotherEpochAreDropped) {
  start(1);
  post_to_all(one_token(1, 1));
  post_to_all(wire::Load{1, 0});
  post_to_all(form(2));
  post_to_all(wire::Load{1, 0});
  post_to_all(wire::Load{2, 0});
  post_to_all(one_token(1, 1));
  wait();
  EXPECT_EQ(answered<wire::Ready>().size(), 1u);
  EXPECT_TRUE(answered<wire::StepDone>().empty());
  EXPECT_TRUE(answered<wire::Failed>().empty());
}

TEST_F(Ranks, AStepThatBreaksTheContractFailsTheEpochAndTheNextOneWorks) {
  start(1);
  post_to_all(form(1));
  post_to_all(wire::Load{1, 0});
  auto bad = one_token(1, 1);
  bad.runs[0].out_slot = 77;
  post_to_all(bad);
  post_to_all(one_token(1, 1));
  wait();
  const auto failed = answered<wire::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].epoch, 1u);
  EXPECT_EQ(failed[0].error.code, Errc::kProtocol);
  EXPECT_TRUE(answered<wire::StepDone>().empty()) << "after Failed a rank holds nothing";
  EXPECT_EQ(workers[0]->figures().weight_bytes, 0);
  post_to_all(form(2));
  post_to_all(wire::Load{2, 0});
  post_to_all(one_token(2, 1));
  wait();
  EXPECT_EQ(answered<wire::StepDone>().size(), 1u);
}

TEST_F(Ranks, AnUnknownInstructionPathIsRefused) {
  start(1);
  auto unknown = form(1);
  unknown.path = "from the future";
  post_to_all(unknown);
  post_to_all(wire::Load{1, 0});
  wait();
  const auto failed = answered<wire::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].error.code, Errc::kUnsupported);
}

TEST_F(Ranks, AbortEndsACollectiveThatWaitsForALostPeer) {
  start(2);
  post_to_all(form(1));
  post_to_all(wire::Load{1, 0});
  wait();
  ASSERT_TRUE(workers[0]->post(one_token(1, 1)));  // rank 1 never gets it
  EXPECT_FALSE(workers[0]->idle());
  workers[0]->abort("rank 1 is silent");
  wait();
  const auto failed = answered<wire::Failed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].error.code, Errc::kUnavailable);
  EXPECT_NE(failed[0].error.message.find("rank 1 is silent"), std::string::npos) << failed[0].error.message;
}

TEST_F(Ranks, ALeaveTakesThePlaceOfWhatWaitsAndTheQueueIsBounded) {
  start(2);
  post_to_all(form(1));
  post_to_all(wire::Load{1, 0});
  wait();
  // Rank 0 waits for rank 1 in the first step; the others pile up.
  int taken = 0;
  while (taken <= limits::kMaxRankCommands + 1 && workers[0]->post(one_token(1, 1)))
    ++taken;
  EXPECT_GE(taken, limits::kMaxRankCommands);
  EXPECT_LE(taken, limits::kMaxRankCommands + 1);
  EXPECT_TRUE(workers[0]->post(wire::Leave{1, "lost"}));
  workers[0]->abort("lost");
  wait();
  EXPECT_LE(answered<wire::Failed>().size(), 1u) << "only the first may have begun";
  EXPECT_TRUE(workers[0]->post(wire::Leave{1, "lost"})) << "there is room again";
}

TEST_F(Ranks, AWorkerEndsWhileItsRankWaitsForAPeer) {
  start(2);
  post_to_all(form(1));
  post_to_all(wire::Load{1, 0});
  wait();
  ASSERT_TRUE(workers[0]->post(one_token(1, 1)));
  workers.clear();  // returns
  EXPECT_TRUE(answered<wire::StepDone>().empty());
}

}  // namespace
}  // namespace krait::test
