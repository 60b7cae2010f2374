// How sequences come and go: refused, queued, cancelled, expired, drained, failed.
#include "common/base/units.h"
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class Lifecycle : public SchedulerFixture {
 protected:
  void expect_end(uint64_t number, wire::FinishReason reason, const std::string& peer = "c") {
    ASSERT_EQ(at(peer, number).finished.size(), 1u) << "request " << number;
    EXPECT_EQ(at(peer, number).finished[0].reason, reason);
    EXPECT_EQ(at(peer, number).finished[0].generated, at(peer, number).tokens.size());
  }
};

TEST_F(Lifecycle, AFullQueueIsAnAnswer) {
  make(2, 50, 3);
  for (uint64_t number = 1; number <= 7; ++number)
    submit(request(number, 4, 5));
  for (uint64_t number = 1; number <= 5; ++number) {
    EXPECT_EQ(at(number).accepted, 1) << number;
    EXPECT_TRUE(at(number).rejected.empty());
  }
  for (const uint64_t number : {6, 7}) {
    EXPECT_EQ(at(number).accepted, 0);
    ASSERT_EQ(at(number).rejected.size(), 1u);
    EXPECT_EQ(at(number).rejected[0].error.code, Errc::kOverloaded);
    EXPECT_GE(at(number).rejected[0].retry_after_s, 1u);
  }
  EXPECT_EQ(scheduler->stats().rejected, 2u);
  run_to_end();
  submit(request(8, 4, 5));
  EXPECT_EQ(at(8).accepted, 1) << "there is room again";
}

TEST_F(Lifecycle, ASequenceWithoutNumbersEndsAloneWithAnErrorAndGivesItsSlotBack) {
  make(3);
  submit(request(1, 4, 9));
  submit(request(2, 4, 9));
  auto scored = request(3, 4, 0);
  scored.sampling.prompt_logprobs = true;
  submit(scored);
  plan_all();
  auto done = engine->run(flying.front());
  flying.pop_front();
  ASSERT_EQ(done.samples.size(), 2u);
  ASSERT_EQ(done.prompt_logprobs.size(), 1u);
  done.samples[0].failed = true;
  done.prompt_logprobs[0].failed = true;
  ASSERT_TRUE(scheduler->step_done(done).ok());
  take();
  for (const uint64_t number : {1, 3}) {
    expect_end(number, wire::FinishReason::kError);
    EXPECT_NE(at(number).finished[0].error.message.find("NaN"), std::string::npos);
    EXPECT_TRUE(at(number).tokens.empty() && at(number).scored.empty()) << "nothing of it reaches the client";
  }
  EXPECT_EQ(scheduler->stats().non_finite, 2u);
  EXPECT_EQ(scheduler->free_slots(), 2u);
  run_to_end();
  expect_end(2, wire::FinishReason::kLength);
}

TEST_F(Lifecycle, RunningSequencesTakeNoPlaceInTheQueue) {
  make(2, 50, 1);
  submit(request(1, 4, 50));
  submit(request(2, 4, 50));
  plan_all();
  EXPECT_EQ(scheduler->running(), 2u);
  submit(request(3, 4, 5));
  submit(request(4, 4, 5));
  EXPECT_EQ(at(3).accepted, 1);
  EXPECT_EQ(at(4).rejected.size(), 1u);
}

TEST_F(Lifecycle, WhatIsWrongWithARequestIsNamed) {
  make(1);
  auto wrong_model = request(1, 3, 1);
  wrong_model.model = "other";
  auto wrong_numerics = request(2, 3, 1);
  wrong_numerics.numerics_id = "other";
  auto no_tokens = request(3, 0, 1);
  auto outside = request(4, 3, 1);
  outside.tokens[1] = kVocab;
  auto all_generated = request(5, 3, 9);
  all_generated.generated = 3;
  auto too_many_generated = request(6, 3, 1);
  too_many_generated.generated = 2;
  auto too_long = request(7, 3, limits::kMaxSequenceTokens);
  const std::vector<std::tuple<wire::Submit, Errc, std::string, bool>> cases = {
      {wrong_model, Errc::kNotFound, "model", false},
      {wrong_numerics, Errc::kUnavailable, "numerics_id", true},
      {no_tokens, Errc::kInvalidArgument, "prompt", false},
      {outside, Errc::kInvalidArgument, "prompt", false},
      {all_generated, Errc::kInvalidArgument, "generated", false},
      {too_many_generated, Errc::kInvalidArgument, "generated", false},
      {too_long, Errc::kInvalidArgument, "max_tokens", false},
  };
  for (const auto& [submitted, code, param, may_retry] : cases) {
    submit(submitted);
    const Received& got = at(submitted.request);
    ASSERT_EQ(got.rejected.size(), 1u) << submitted.request;
    EXPECT_EQ(got.rejected[0].error.code, code);
    EXPECT_EQ(got.rejected[0].error.param, param);
    EXPECT_EQ(got.rejected[0].retry_after_s > 0, may_retry) << submitted.request;
    EXPECT_EQ(got.accepted, 0);
  }
  EXPECT_FALSE(scheduler->plan().has_value());
}

TEST_F(Lifecycle, ANumberMayNotBeUsedTwiceAtATimeButEachCoordinatorHasItsOwn) {
  make(4);
  submit(request(1, 3, 9));
  submit(request(1, 3, 9));
  submit(request(1, 3, 9), "d");
  EXPECT_EQ(at(1).accepted, 1);
  EXPECT_EQ(at(1).rejected.size(), 1u);
  EXPECT_EQ(at("d", 1).accepted, 1);
  run_to_end();
  EXPECT_EQ(at(1).tokens, at("d", 1).tokens);
  EXPECT_EQ(at(1).tokens.size(), 9u);
}

TEST_F(Lifecycle, CancelWhileQueued) {
  make(1);
  submit(request(1, 3, 9));
  plan_all();
  submit(request(2, 3, 9));
  submit(request(3, 3, 9));
  scheduler->cancel("c", {2, 0});
  take();
  expect_end(2, wire::FinishReason::kCancelled);
  EXPECT_EQ(scheduler->waiting(), 1u);
  run_to_end();
  EXPECT_TRUE(at(2).tokens.empty());
  expect_end(3, wire::FinishReason::kLength);
}

TEST_F(Lifecycle, CancelWhilePrefilling) {
  make(1, lone_step_ms_for(16));
  submit(request(1, 200, 9));
  plan_all();
  finish_one();
  EXPECT_EQ(scheduler->free_slots(), 0u);
  scheduler->cancel("c", {1, 0});
  take();
  EXPECT_EQ(scheduler->free_slots(), 1u);
  for (const auto& step : plan_all())
    EXPECT_TRUE(step.runs.empty()) << "no plan made from now on holds it";
  run_to_end();
  expect_end(1, wire::FinishReason::kCancelled);
  EXPECT_EQ(scheduler->stats().cancelled, 1u);
}

TEST_F(Lifecycle, CancelWhileDecoding) {
  make(1);
  submit(request(1, 3, 1000));
  for (int i = 0; i < 5; ++i) {
    plan_all();
    finish_one();
  }
  scheduler->cancel("c", {1, 3});
  take();
  EXPECT_TRUE(plan_all().empty());
  run_to_end();
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 3, 5));
  expect_end(1, wire::FinishReason::kCancelled);
  scheduler->cancel("c", {1, 3});
  scheduler->cancel("nobody", {77, 0});
  EXPECT_TRUE(scheduler->take_outgoing().empty()) << "what has ended cannot end again";
}

TEST_F(Lifecycle, DrainFinishesWhatWasAccepted) {
  make(1);
  submit(request(1, 3, 4));
  submit(request(2, 3, 4));
  scheduler->drain();
  EXPECT_FALSE(scheduler->drained());
  submit(request(3, 3, 4));
  ASSERT_EQ(at(3).rejected.size(), 1u);
  EXPECT_EQ(at(3).rejected[0].error.code, Errc::kUnavailable);
  EXPECT_GE(at(3).rejected[0].retry_after_s, 1u);
  run_to_end();
  expect_end(1, wire::FinishReason::kLength);
  expect_end(2, wire::FinishReason::kLength);
  EXPECT_TRUE(scheduler->drained());
}

TEST_F(Lifecycle, DeadlinesEndQueuedAndRunningSequences) {
  make(1);
  for (const uint64_t number : {1, 2, 3}) {
    auto submitted = request(number, 3, 1000);
    submitted.deadline_ms = number == 3 ? 0 : 100;
    submit(submitted);
  }
  plan_all();
  finish_one();
  clock.advance(100 * kMs - 1);
  scheduler->expire();
  take();
  EXPECT_TRUE(at(1).finished.empty());
  clock.advance(1);
  scheduler->expire();
  take();
  expect_end(1, wire::FinishReason::kDeadline);
  expect_end(2, wire::FinishReason::kDeadline);
  EXPECT_EQ(scheduler->free_slots(), 1u);
  EXPECT_EQ(scheduler->waiting(), 1u);
  run_to_end();
  expect_end(3, wire::FinishReason::kLength);
}

TEST_F(Lifecycle, TimesAreTold) {
  make(1);
  submit(request(1, 3, 3));
  clock.advance(5 * kMs);
  plan_all();
  clock.advance(7 * kMs);
  finish_one();
  clock.advance(11 * kMs);
  run_to_end();
  ASSERT_EQ(at(1).finished.size(), 1u);
  EXPECT_EQ(at(1).finished[0].queue_us, 5000);
  EXPECT_EQ(at(1).finished[0].prefill_us, 7000);
  EXPECT_EQ(at(1).finished[0].decode_us, 11'000);
}

TEST_F(Lifecycle, ACoordinatorThatIsGoneTakesItsSequencesWithIt) {
  make(2);
  submit(request(1, 3, 9));
  submit(request(1, 3, 9), "d");
  submit(request(2, 3, 9), "d");
  plan_all();
  finish_one();
  const auto before = at("d", 1).tokens.size();
  scheduler->drop_peer("d");
  EXPECT_TRUE(scheduler->take_outgoing().empty());
  EXPECT_EQ(scheduler->free_slots(), 1u);
  EXPECT_EQ(scheduler->waiting(), 0u);
  run_to_end();
  EXPECT_EQ(at("d", 1).tokens.size(), before);
  EXPECT_TRUE(at("d", 1).finished.empty());
  expect_end(1, wire::FinishReason::kLength);
}

TEST_F(Lifecycle, ASilentCoordinatorIsToldShouldItListenAgain) {
  make(2);
  submit(request(1, 3, 9));
  submit(request(1, 3, 9), "d");
  plan_all();
  scheduler->fail_peer("d", Error{Errc::kUnavailable, "silent", ""});
  take();
  expect_end(1, wire::FinishReason::kError, "d");
  EXPECT_EQ(at("d", 1).finished.at(0).error.message, "silent");
  run_to_end();
  expect_end(1, wire::FinishReason::kLength);
}

TEST_F(Lifecycle, FailAllEndsEverythingWithTheReason) {
  make(1);
  submit(request(1, 3, 9));
  submit(request(2, 3, 9));
  plan_all();
  scheduler->fail_all(Error{Errc::kUnavailable, "rank 1 is silent", ""});
  take();
  for (const uint64_t number : {1, 2}) {
    expect_end(number, wire::FinishReason::kError);
    EXPECT_EQ(at(number).finished[0].error.message, "rank 1 is silent");
  }
  EXPECT_EQ(scheduler->plans_in_flight(), 0u);
  EXPECT_EQ(scheduler->free_slots(), 1u);
}

}  // namespace
}  // namespace krait::test
