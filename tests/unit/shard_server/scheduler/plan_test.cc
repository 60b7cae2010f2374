// What stands in plans: decodes first, prefill to the budget, first come first served, never more than was asked for.
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class Plan : public SchedulerFixture {};

int64_t rows_of(const wire::Step& step) {
  int64_t rows = 0;
  for (const auto& run : step.runs)
    rows += run.rows();
  return rows;
}

TEST_F(Plan, DecodesComeFirstAndPrefillFillsTheBudget) {
  make(4, step_ms_for(40));
  submit(request(1, 5, 100));
  plan_all();
  finish_one();
  submit(request(2, 200, 1));
  // The second plan in flight was made before: a decode row alone.
  ASSERT_EQ(flying.size(), 1u);
  EXPECT_EQ(rows_of(flying[0]), 1);
  const auto made = plan_all();
  ASSERT_EQ(made.size(), 1u);
  ASSERT_EQ(made[0].runs.size(), 2u);
  EXPECT_TRUE(made[0].runs[0].tokens.empty()) << "the running sequence's token stands before the prompt";
  EXPECT_TRUE(made[0].runs[0].sample);
  EXPECT_EQ(made[0].runs[1].tokens.size(), 39u) << "40 rows fit, one is a decode";
  EXPECT_FALSE(made[0].runs[1].sample);
}

TEST_F(Plan, PromptsArePrefilledInChunksInTheOrderTheyCame) {
  make(4, lone_step_ms_for(32));
  for (const uint64_t number : {1, 2, 3})
    submit(request(number, 50, 1));
  std::vector<std::pair<int32_t, size_t>> order;  // slot, rows
  for (int i = 0; i < 5; ++i) {
    plan_all();
    for (const auto& run : flying.front().runs) {
      if (!run.tokens.empty()) order.emplace_back(run.sequence_slot, run.tokens.size());
    }
    finish_one();
  }
  const std::vector<std::pair<int32_t, size_t>> expected = {{0, 32}, {0, 18}, {1, 14}, {1, 32},
                                                            {1, 4},  {0, 28}, {0, 22}};
  EXPECT_EQ(order, expected);
  run_to_end();
  for (const uint64_t number : {1, 2, 3})
    EXPECT_EQ(at(number).tokens, expected_tokens(number, 50, 1));
}

TEST_F(Plan, PrefillThatNobodyWaitsForTakesLongerStepsOneAtATime) {
  make(4, step_ms_for(40));
  submit(request(1, 500, 1));
  const auto first = plan_all();
  ASSERT_EQ(first.size(), 1u) << "who comes now waits for one long step only";
  EXPECT_EQ(rows_of(first[0]), limits::kLonePrefillRows);
  finish_one();
  submit(request(2, 3, 30));
  EXPECT_EQ(rows_of(plan_all().at(0)), limits::kLonePrefillRows);
  finish_one();  // request 1 was first; now both are read
  EXPECT_EQ(rows_of(plan_all().at(0)), limits::kLonePrefillRows);
  finish_one();
  EXPECT_EQ(rows_of(plan_all().at(0)), 500 - 3 * limits::kLonePrefillRows + 3);
  finish_one();
  EXPECT_EQ(at(2).tokens.size(), 1u);
  submit(request(3, 500, 1));
  while (at(2).finished.empty()) {
    plan_all();
    if (!flying.front().runs[0].tokens.empty()) break;
    EXPECT_LE(rows_of(flying.front()), 40) << "a sequence waits for its next token";
    finish_one();
  }
  run_to_end();
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 500, 1));
  EXPECT_EQ(at(3).tokens, expected_tokens(3, 500, 1));
}

TEST_F(Plan, ALonePrefillStepIsNoLongerThanItsMultipleOfThePromise) {
  make(1, step_ms_for(20));
  submit(request(1, 500, 1));
  EXPECT_EQ(rows_of(plan_all().at(0)), 20 * limits::kLonePrefillFactor);
}

TEST_F(Plan, WhatLonePrefillTellsMakesNoStepWithDecodeRowsTooLong) {
  // A row costs 0.5 ms in long steps, and up to 15 % more in short ones.
  scheduler::StepCost cost;
  for (int i = 0; i < 50; ++i)
    cost.observe(128, 64, true);
  EXPECT_LE(static_cast<double>(cost.prefill_budget(0, 50, 2048)) * 0.5 * 1.15, 50);
  EXPECT_GE(cost.prefill_budget(0, 50, 2048), 80);
}

TEST_F(Plan, WhereManyRowsFitThePromiseALonePrefillTakesAllOfThem) {
  make(1, step_ms_for(300));
  submit(request(1, 700, 1));
  const auto made = plan_all();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(rows_of(made[0]), 300);
  EXPECT_EQ(rows_of(made[1]), 300);
}

TEST_F(Plan, APromptMovesOnHoweverSmallTheBudget) {
  make(1, 0.001);
  submit(request(1, 40, 1));
  EXPECT_EQ(plan_all().at(0).runs.at(0).tokens.size(), 16u);
}

TEST_F(Plan, RowsNeverExceedWhatTheRanksHold) {
  make(8, 1e9, 100, 24);  // the engine checks rows
  for (uint64_t number = 1; number <= 20; ++number)
    submit(request(number, 10 * number, 6));
  run_to_end();
  for (uint64_t number = 1; number <= 20; ++number) {
    EXPECT_EQ(at(number).tokens, expected_tokens(number, 10 * number, 6));
  }
}

TEST_F(Plan, TwoPlansAreInFlightAtMost) {
  make(2);
  submit(request(1, 3, 10));
  EXPECT_EQ(plan_all().size(), 2u);
  EXPECT_EQ(scheduler->plans_in_flight(), 2u);
  finish_one();
  EXPECT_EQ(plan_all().size(), 1u);
}

TEST_F(Plan, NoMoreTokensArePlannedThanWereAskedFor) {
  make(2);
  for (const uint32_t max_tokens : {1u, 2u, 3u, 7u}) {
    submit(request(max_tokens, 3, max_tokens));
    int sampled = 0;
    while (true) {
      for (const auto& step : plan_all()) {
        for (const auto& run : step.runs)
          sampled += run.sample ? 1 : 0;
      }
      if (flying.empty()) break;
      finish_one();
    }
    EXPECT_EQ(sampled, static_cast<int>(max_tokens));
    ASSERT_EQ(at(max_tokens).finished.size(), 1u);
    EXPECT_EQ(at(max_tokens).finished[0].reason, wire::FinishReason::kLength);
    EXPECT_EQ(at(max_tokens).finished[0].generated, max_tokens);
  }
}

TEST_F(Plan, APromptOfOneToken) {
  make(1);
  submit(request(1, 1, 3));
  run_to_end();
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 1, 3));
}

TEST_F(Plan, AStopIdEndsASequenceAndTheRowPlannedBeyondItCountsForNothing) {
  make(1);
  auto submitted = request(1, 4, 50);
  const auto would_be = expected_tokens(1, 4, 50);
  submitted.sampling.stop_ids = {would_be[5]};
  submit(submitted);
  submit(request(2, 3, 2));  // waits for the slot
  run_to_end();
  EXPECT_EQ(at(1).tokens, std::vector<int32_t>(would_be.begin(), would_be.begin() + 6)) << "the stop token is told";
  ASSERT_EQ(at(1).finished.size(), 1u);
  EXPECT_EQ(at(1).finished[0].reason, wire::FinishReason::kStop);
  EXPECT_EQ(at(1).finished[0].generated, 6u);
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 3, 2));
}

TEST_F(Plan, AFreedSlotIsUsedAgainWhilePlansThatNameItAreInFlight) {
  make(1);
  submit(request(1, 3, 40));
  submit(request(2, 3, 2));
  plan_all();
  ASSERT_EQ(flying.size(), 2u);
  finish_one();  // one plan of request 1 is still in flight
  scheduler->cancel("c", {1, 1});
  take();
  const auto made = plan_all();
  ASSERT_EQ(made.size(), 1u);
  ASSERT_EQ(made[0].admissions.size(), 1u);
  EXPECT_EQ(made[0].admissions[0].slot, 0);
  run_to_end();
  EXPECT_EQ(at(1).tokens.size(), 1u) << "what the plan in flight brought comes to nobody";
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 3, 2));
}

TEST_F(Plan, ScoringAloneRunsAllButTheLastTokenAndSamplesNothing) {
  make(1, lone_step_ms_for(16));
  auto submitted = request(1, 40, 0);
  submitted.sampling.prompt_logprobs = true;
  submit(submitted);
  int64_t rows = 0;
  while (true) {
    for (const auto& step : plan_all()) {
      rows += rows_of(step);
      for (const auto& run : step.runs)
        EXPECT_FALSE(run.sample);
    }
    if (flying.empty()) break;
    finish_one();
  }
  EXPECT_EQ(rows, 39);
  EXPECT_EQ(at(1).scored, std::vector<int32_t>(submitted.tokens.begin() + 1, submitted.tokens.end()));
  ASSERT_EQ(at(1).finished.size(), 1u);
  EXPECT_EQ(at(1).finished[0].reason, wire::FinishReason::kLength);
  EXPECT_EQ(scheduler->free_slots(), 1u);
}

TEST_F(Plan, ScoringWithTokensToGenerate) {
  make(1, lone_step_ms_for(16));
  auto submitted = request(1, 40, 3);
  submitted.sampling.prompt_logprobs = true;
  submit(submitted);
  run_to_end();
  EXPECT_EQ(at(1).scored, std::vector<int32_t>(submitted.tokens.begin() + 1, submitted.tokens.end()));
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 40, 3));
}

TEST_F(Plan, NothingToGenerateAndNothingToScoreEndsAtOnce) {
  make(1);
  submit(request(1, 5, 0));
  auto one_token = request(2, 1, 0);
  one_token.sampling.prompt_logprobs = true;  // the first token has no logprob
  submit(one_token);
  EXPECT_FALSE(scheduler->plan().has_value());
  for (const uint64_t number : {1, 2}) {
    EXPECT_EQ(at(number).accepted, 1);
    ASSERT_EQ(at(number).finished.size(), 1u);
    EXPECT_EQ(at(number).finished[0].reason, wire::FinishReason::kLength);
    EXPECT_EQ(at(number).finished[0].generated, 0u);
  }
}

TEST_F(Plan, ASequenceThatAnotherGroupBeganGoesOnWhereItWas) {
  make(1);
  const auto whole = expected_tokens(7, 6, 10);
  auto submitted = request(7, 6, 10);
  submitted.tokens.insert(submitted.tokens.end(), whole.begin(), whole.begin() + 4);
  submitted.generated = 4;
  generated_before[7] = 4;
  submit(submitted);
  const auto first = plan_all().at(0);
  EXPECT_EQ(first.admissions.at(0).prompt_tokens, 6u) << "what was generated is output, not prompt";
  run_to_end();
  EXPECT_EQ(at(7).tokens, std::vector<int32_t>(whole.begin() + 4, whole.end()));
  ASSERT_EQ(at(7).finished.size(), 1u);
  EXPECT_EQ(at(7).finished[0].generated, 10u);
}

TEST_F(Plan, StepsThatTakeLongerMakeChunksSmaller) {
  make(2, 50);
  submit(request(1, 900, 1));
  auto step = scheduler->plan();
  ASSERT_TRUE(step.has_value());
  const auto before = step->runs.at(0).tokens.size();
  auto done = engine->run(*step);
  done.timings.total_us = 400'000;  // eight times the aim
  ASSERT_TRUE(scheduler->step_done(done).ok());
  step = scheduler->plan();
  ASSERT_TRUE(step.has_value());
  EXPECT_LT(step->runs.at(0).tokens.size(), before);
  EXPECT_GT(scheduler->backlog_seconds(), 1.0);
  EXPECT_GT(scheduler->tokens_per_second(), 0.0);
}

TEST_F(Plan, AnAnswerToAnotherPlanIsRefusedAndChangesNothing) {
  make(1);
  submit(request(1, 3, 5));
  EXPECT_FALSE(scheduler->step_done({.step = 1}).ok()) << "nothing was planned";
  plan_all();
  EXPECT_EQ(scheduler->plans_in_flight(), 2u);
  EXPECT_FALSE(scheduler->step_done({.step = 2}).ok()) << "the first comes first";
  EXPECT_FALSE(scheduler->step_done({.step = 1}).ok()) << "its sample is missing";
  run_to_end();
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 3, 5));
}

}  // namespace
}  // namespace krait::test
