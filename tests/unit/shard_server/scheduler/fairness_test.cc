// Clients share what there is: turns at slots and rows, places in the queue.
#include "common/base/fair_room.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class Fairness : public SchedulerFixture {
 protected:
  void submit_of(const std::string& client, uint64_t number, size_t prompt, uint32_t max_tokens) {
    auto submitted = request(number, 1, max_tokens);
    submitted.tokens.assign(prompt, 1);
    submitted.tokens[0] = static_cast<int32_t>(number % kVocab);
    submitted.client = client;
    submit(submitted);
  }
  bool accepted(uint64_t number) { return at(number).accepted == 1; }
  void step() {
    plan_all();
    finish_one();
  }
  size_t ended() const {
    return static_cast<size_t>(std::count_if(received.begin(), received.end(),
                                             [](const auto& entry) { return !entry.second.finished.empty(); }));
  }
};

TEST_F(Fairness, AModestClientWaitsForItsTurnAndNotForTheQueue) {
  constexpr uint64_t kHogs = 200;
  make(8, 50, 1024);
  for (uint64_t number = 1; number <= kHogs; ++number)
    submit_of("hog", number, 4, 20 + static_cast<uint32_t>(number % 7));
  for (int i = 0; i < 3; ++i)
    step();
  for (uint64_t number = 1001; number <= 1010; ++number) {
    const size_t ended_before = ended();
    submit_of("modest", number, 4, 5);
    while (at(number).tokens.empty())
      step();
    // One slot that was freed may have been the hog's turn, the next is ours. Two plans are in flight, and several
    // sequences end in one step.
    EXPECT_LE(ended() - ended_before, 8u) << "of 200 that came before";
    while (at(number).finished.empty())
      step();
  }
  run_to_end();
  EXPECT_EQ(ended(), kHogs + 10);
}

TEST_F(Fairness, WithOneSlotTurnsAlternate) {
  make(1);
  for (uint64_t number = 1; number <= 4; ++number)
    submit_of("a", number, 3, 2);
  for (uint64_t number = 11; number <= 13; ++number)
    submit_of("b", number, 3, 2);
  submit_of("c", 21, 3, 2);
  std::vector<uint64_t> order;
  while (order.size() < 8) {
    step();
    for (const auto& [key, got] : received) {
      const bool is_new = std::find(order.begin(), order.end(), key.second) == order.end();
      if (!got.finished.empty() && is_new) order.push_back(key.second);
    }
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 11, 21, 2, 12, 3, 13, 4}));
}

TEST_F(Fairness, AHugePromptHoldsAShortOneBackByNoMoreThanItsShare) {
  make(4, lone_step_ms_for(40));
  submit_of("hog", 1, 5000, 1);
  submit_of("hog", 2, 5000, 1);
  step();
  submit_of("modest", 3, 15, 1);
  plan_all();
  ASSERT_EQ(flying.size(), 1u);
  ASSERT_EQ(flying[0].runs.size(), 2u) << "the plan made after it came holds both";
  EXPECT_EQ(flying[0].runs[0].tokens.size(), 25u) << "what the short one does not need is the hog's";
  EXPECT_EQ(flying[0].runs[1].tokens.size(), 15u);
  EXPECT_TRUE(flying[0].runs[1].sample);
  run_to_end();
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 5000, 1));
  EXPECT_EQ(at(3).tokens, expected_tokens(3, 15, 1));
}

TEST_F(Fairness, ClientsGetEqualRows) {
  make(40, 0.001);
  std::map<int32_t, size_t> rows;  // by slot: each client has one sequence
  for (uint64_t number = 1; number <= 30; ++number)
    submit_of(fmt::format("client {}", number), number, 1000, 1);
  for (int i = 0; i < 150; ++i) {
    plan_all();
    for (const auto& run : flying.front().runs)
      rows[run.sequence_slot] += run.tokens.size();
    finish_one();
  }
  ASSERT_EQ(rows.size(), 30u);
  for (const auto& [slot, count] : rows)
    EXPECT_EQ(count, 80u) << "150 steps of 16 rows, over 30";
}

TEST_F(Fairness, AFloodIsRefusedAndANewcomerFindsAPlace) {
  make(2, 50, 16);
  for (uint64_t number = 1; number <= 40; ++number)
    submit_of("hog", number, 4, 5);
  EXPECT_TRUE(accepted(18)) << "two slots and sixteen places";
  EXPECT_FALSE(accepted(19));
  EXPECT_EQ(at(40).rejected.at(0).error.code, Errc::kOverloaded);
  submit_of("modest", 101, 4, 5);
  EXPECT_TRUE(accepted(101));
  submit_of("modest", 102, 4, 5);
  EXPECT_FALSE(accepted(102)) << "it has one, and one place is left";
  submit_of("hog", 41, 4, 5);
  EXPECT_FALSE(accepted(41));
  submit_of("third", 201, 4, 5);
  EXPECT_TRUE(accepted(201));
  submit_of("fourth", 301, 4, 5);
  EXPECT_FALSE(accepted(301)) << "the queue is bounded";
  run_to_end();
  EXPECT_EQ(ended(), 20u);
}

TEST_F(Fairness, TokensThatWaitAreSharedLikePlaces) {
  make(1, 50, 1000);
  constexpr size_t kLong = size_t{1} << 20;
  uint64_t number = 0;
  while (number == 0 || accepted(number))
    submit_of("hog", ++number, kLong, 1);
  EXPECT_EQ(number, static_cast<uint64_t>(limits::kMaxQueuedTokens) / kLong + 1);
  submit_of("modest", 1001, kLong, 1);
  EXPECT_TRUE(accepted(1001));
  submit_of("hog", 1002, 1, 1);
  EXPECT_FALSE(accepted(1002));
}

TEST_F(Fairness, CancelledSequencesGiveTheirPlacesBack) {
  make(1, 50, 4);
  for (uint64_t round = 0; round < 50; ++round) {
    for (uint64_t number = 1; number <= 5; ++number)
      submit_of("hog", round * 10 + number, 4, 5);
    EXPECT_EQ(scheduler->waiting(), 5u);
    for (const uint64_t number : {3, 1, 5, 2, 4})
      scheduler->cancel("c", {round * 10 + number, 0});
    take();
    EXPECT_EQ(scheduler->waiting(), 0u);
    EXPECT_EQ(scheduler->backlog_seconds(), 0.0);
  }
}

TEST_F(Fairness, TheTimeToComeAgainFollowsTheBacklog) {
  make(2, 50, 8);
  for (uint64_t number = 1; number <= 10; ++number)
    submit_of("hog", number, 4, 2000);
  // Before anything was measured a row takes half a millisecond: 20,000 tokens two by two.
  EXPECT_NEAR(scheduler->backlog_seconds(), 10.02, 0.1);
  submit_of("hog", 11, 4, 2000);
  EXPECT_EQ(at(11).rejected.at(0).retry_after_s, 11u);
  for (int i = 0; i < 1000; ++i)
    step();
  EXPECT_NEAR(scheduler->backlog_seconds(), 9, 0.1);
  run_to_end();
  EXPECT_EQ(scheduler->backlog_seconds(), 0);
}

TEST_F(Fairness, TheBacklogIsReckonedByStepsAsTheyAre) {
  make(8, 50, 100);
  for (uint64_t number = 1; number <= 16; ++number)
    submit_of("any", number, 4, 1000);
  for (int i = 0; i < 100; ++i) {
    plan_all();
    auto done = engine->run(flying.front());
    flying.pop_front();
    done.timings.total_us = i < 5 ? 400'000 : 20'000;  // it was slow once
    ASSERT_TRUE(scheduler->step_done(done).ok());
    take();
  }
  // Eight by eight: 900 steps of those that run, and 1000 of those that wait.
  EXPECT_NEAR(scheduler->backlog_seconds(), 1900 * 0.02, 2.5);
}

TEST_F(Fairness, TextsThatEndEarlyMakeTheBacklogShorter) {
  make(1, 50, 100);
  const auto stop = expected_tokens(7, 4, 1)[0];
  for (uint64_t number = 1; number <= 60; ++number) {
    auto submitted = request(number, 4, 1000);
    submitted.sampling.seed = 7;
    submitted.sampling.stop_ids = {stop};
    submit(submitted);
    run_to_end();
  }
  submit_of("any", 100, 4, 1000);
  EXPECT_LT(scheduler->backlog_seconds(), 0.1) << "a thousand tokens may come, and one does";
}

TEST(FairRoom, UpToTheLimitAnyoneBeyondItWhoHoldsLittle) {
  EXPECT_TRUE(has_fair_room(99, 99, 1, 100));
  EXPECT_FALSE(has_fair_room(100, 100, 1, 100));
  EXPECT_TRUE(has_fair_room(100, 0, 1, 100));
  EXPECT_TRUE(has_fair_room(111, 0, 1, 100)) << "the reserve of twelve has one left";
  EXPECT_FALSE(has_fair_room(111, 1, 1, 100));
  EXPECT_FALSE(has_fair_room(112, 0, 1, 100));
}

}  // namespace
}  // namespace krait::test
