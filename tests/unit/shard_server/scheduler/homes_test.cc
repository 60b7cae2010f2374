// Ranks that hold the whole model each: where sequences live, and when ranks read a prompt together.
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class HomesTest : public SchedulerFixture {
 protected:
  void make_homes(int world, double row_us) {
    homes = world;
    prompt_ranks = static_cast<uint32_t>(world);
    make(8);
    // What a row costs is known from a first sequence.
    submit(request(1, 100, 1));
    while (auto step = scheduler->plan()) {
      auto done = engine->run(*step);
      done.timings.total_us = static_cast<int64_t>(row_us * static_cast<double>(rows_of(*step)));
      ASSERT_TRUE(scheduler->step_done(done).ok());
      take();
    }
  }
  static wire::Submit long_request(uint64_t number, int64_t prompt, uint32_t max_tokens) {
    auto submit = request(number, static_cast<size_t>(prompt), max_tokens);
    for (int32_t& token : submit.tokens)
      token %= kVocab;
    return submit;
  }
  static int64_t rows_of(const wire::Step& step) {
    int64_t rows = 0;
    for (const auto& run : step.runs)
      rows += run.rows();
    return rows;
  }
};

TEST_F(HomesTest, ALongPromptThatIsAloneIsReadByAllRanks) {
  make_homes(2, 100);
  submit(long_request(2, 9000, 3));
  const auto first = scheduler->plan();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->runs.at(0).ranks, 2u);
  EXPECT_EQ(rows_of(*first), 2 * limits::kSharedPromptRows);
  EXPECT_FALSE(scheduler->plan()) << "who comes now waits for one long step only";
  flying.push_back(*first);
  finish_one();
  const auto rest = scheduler->plan();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->runs.at(0).ranks, 1u) << "what is left is too short to share";
  flying.push_back(*rest);
  run_to_end();
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 9000, 3));
  EXPECT_EQ(scheduler->stats().shared_prompt_tokens, 2u * limits::kSharedPromptRows);
}

TEST_F(HomesTest, AStepOfASharedPromptTakesABoundedTime) {
  make_homes(2, 1000);
  submit(long_request(2, 9000, 1));
  const auto step = scheduler->plan();
  ASSERT_TRUE(step);
  EXPECT_EQ(step->runs.at(0).ranks, 2u);
  EXPECT_NEAR(static_cast<double>(rows_of(*step)), 2 * limits::kSharedPromptMs, 100);
}

TEST_F(HomesTest, WhatARowCostsIsLearnedBeforeLongSteps) {
  homes = 2;
  prompt_ranks = 2;
  make(8);
  submit(long_request(1, 9000, 1));
  const auto first = scheduler->plan();
  ASSERT_TRUE(first);
  EXPECT_EQ(rows_of(*first), 2 * limits::kLeastSharedRows) << "nobody knows yet what a row costs";
  auto done = engine->run(*first);
  done.timings.total_us = limits::kLeastSharedRows * 2000;  // both ranks at once, 2 ms a row
  ASSERT_TRUE(scheduler->step_done(done).ok());
  const auto next = scheduler->plan();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->runs.at(0).ranks, 2u);
  EXPECT_LE(rows_of(*next), static_cast<int64_t>(2 * limits::kSharedPromptMs / 2));
  EXPECT_GE(rows_of(*next), static_cast<int64_t>(0.8 * 2 * limits::kSharedPromptMs / 2));
}

TEST_F(HomesTest, AnAnswerWithAnothersResultIsRefused) {
  homes = 2;
  make(8);
  submit(request(1, 10, 3));
  submit(request(2, 11, 3));
  const auto step = scheduler->plan();
  ASSERT_TRUE(step);
  auto done = engine->run(*step);
  std::swap(done.samples.at(0), done.samples.at(1));
  EXPECT_EQ(scheduler->step_done(done).error().code, Errc::kProtocol);
  std::swap(done.samples.at(0), done.samples.at(1));
  EXPECT_TRUE(scheduler->step_done(done).ok());
}

TEST_F(HomesTest, NobodySharesBesideOthersOrForShortOrScoredPrompts) {
  make_homes(2, 100);
  const auto ranks_of_next = [&] {
    const auto step = scheduler->plan();
    EXPECT_TRUE(step);
    flying.push_back(*step);
    return step->runs.at(0).ranks;
  };
  submit(long_request(2, 2 * limits::kLeastSharedRows - 1, 1));
  EXPECT_EQ(ranks_of_next(), 1u);
  run_to_end();
  auto scored = long_request(3, 5000, 1);
  scored.sampling.prompt_logprobs = true;
  submit(scored);
  EXPECT_EQ(ranks_of_next(), 1u);
  run_to_end();
  submit(long_request(4, 5000, 1));
  submit(request(5, 5, 1));
  EXPECT_EQ(ranks_of_next(), 1u);
  run_to_end();
  EXPECT_EQ(scheduler->stats().shared_prompt_tokens, 0u);
}

TEST_F(HomesTest, SequencesGoToTheRankWithTheFewestAndForksStayThere) {
  homes = 2;
  make(8);
  std::vector<int> at_rank(2);
  for (uint64_t number = 1; number <= 4; ++number)
    submit(request(number, 10, 20));
  for (const auto& step : plan_all()) {
    for (const auto& admission : step.admissions)
      ++at_rank[static_cast<size_t>(admission.slot % 2)];
  }
  EXPECT_EQ(at_rank, (std::vector<int>{2, 2}));
  // A third choice finds no slot beside the first two of its rank, and reads for itself.
  auto choice = request(5, 60, 20);
  for (uint64_t number = 5; number <= 7; ++number) {
    choice.request = choice.sampling.seed = number;
    submit(choice);
  }
  finish_one();
  const auto forked = plan_all();
  ASSERT_FALSE(forked.empty());
  ASSERT_EQ(forked[0].taps.size(), 1u);
  int32_t source = -1;
  for (const auto& run : forked[0].runs) {
    if (!run.tokens.empty()) source = run.sequence_slot;
  }
  EXPECT_EQ(forked[0].taps[0].slot % 2, source % 2);
  run_to_end();
  for (uint64_t number = 5; number <= 7; ++number)
    EXPECT_EQ(at(number).tokens, expected_tokens(number, 60, 20)) << number;
}

TEST_F(HomesTest, AnswersOfRanksBecomeOneInTheOrderOfThePlan) {
  homes = 2;
  make(8);
  for (uint64_t number = 1; number <= 5; ++number)
    submit(request(number, 10 + number, 6));
  while (auto step = scheduler->plan()) {
    const auto whole = engine->run(*step);
    std::vector<wire::StepDone> answers(2);
    for (size_t rank = 0; rank < 2; ++rank) {
      answers[rank] = whole;
      std::erase_if(answers[rank].samples, [&](const auto& sample) { return sample.slot % 2 != int(rank); });
      answers[rank].timings.total_us = rank == 0 ? 1000 : 3000;
    }
    const auto merged = scheduler->merge(answers);
    EXPECT_EQ(merged.timings.total_us, 3000);
    EXPECT_EQ(merged.samples, whole.samples);
    ASSERT_TRUE(scheduler->step_done(merged).ok());
    take();
  }
  for (uint64_t number = 1; number <= 5; ++number)
    EXPECT_EQ(at(number).tokens, expected_tokens(number, 10 + number, 6)) << number;
}

}  // namespace
}  // namespace krait::test
