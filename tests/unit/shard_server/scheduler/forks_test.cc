// Sequences with one prompt read it once: the first leads, the others go on from its state and share its pages.
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class Forks : public SchedulerFixture {
 protected:
  static wire::Submit choice(uint64_t number, size_t prompt, uint32_t max_tokens) {
    auto submit = request(number, prompt, max_tokens);
    submit.tokens[0] = 1;
    return submit;
  }
  void submit_choices(uint64_t first, uint64_t last, size_t prompt, uint32_t max_tokens) {
    for (uint64_t number = first; number <= last; ++number)
      submit(choice(number, prompt, max_tokens));
  }
  void expect_answers(uint64_t first, uint64_t last, size_t prompt, uint32_t max_tokens) {
    for (uint64_t number = first; number <= last; ++number)
      EXPECT_EQ(at(number).tokens, expected_tokens(number, prompt, max_tokens)) << number;
  }
  uint32_t cached(uint64_t number) { return at(number).finished.at(0).cached_tokens; }
};

TEST_F(Forks, AllButTheLastTokenIsReadOnce) {
  make(8);
  submit_choices(1, 4, 50, 5);
  run_to_end();
  expect_answers(1, 4, 50, 5);
  EXPECT_EQ(scheduler->stats().prompt_tokens, 50u + 3);
  EXPECT_EQ(cached(1), 0u);
  EXPECT_EQ(cached(4), 49u);
}

TEST_F(Forks, FullPagesAreSharedUntilTheirLastUserEnds) {
  make(8, 50, 100, 2048, 20);
  submit_choices(1, 4, 50, 5);  // four pages each; three of them are before the fork
  plan_all();
  EXPECT_EQ(scheduler->used_pages(), 4u + 3);
  scheduler->cancel("c", {1, 0});
  EXPECT_EQ(scheduler->used_pages(), 3u + 3);
  submit(request(5, 200, 20));  // who gets the rest of the pages writes none of those
  run_to_end();
  expect_answers(2, 4, 50, 5);
  expect_answers(5, 5, 200, 20);
  EXPECT_EQ(cached(4), 48u);
  EXPECT_EQ(scheduler->free_pages(), 20u);
}

TEST_F(Forks, APromptMayComeInChunks) {
  make(8, lone_step_ms_for(16), 100, 2048, 100);
  submit_choices(1, 3, 200, 5);
  run_to_end();
  expect_answers(1, 3, 200, 5);
  EXPECT_EQ(scheduler->stats().prompt_tokens, 200u + 2 * 8);
}

TEST_F(Forks, WhoeverLedAndIsGoneLeavesTheOthersToReadForThemselves) {
  make(8, lone_step_ms_for(16));
  submit_choices(1, 3, 100, 5);
  plan_all();
  scheduler->cancel("c", {1, 0});
  scheduler->cancel("c", {2, 0});
  run_to_end();
  expect_answers(3, 3, 100, 5);
  EXPECT_EQ(cached(3), 0u);
}

TEST_F(Forks, TakeNoPlaceForWhichAnotherClientWaits) {
  make(2);
  submit_choices(1, 2, 50, 5);
  auto other = request(3, 20, 5);
  other.client = "other";
  submit(other);
  plan_all();
  EXPECT_EQ(scheduler->running(), 2u);
  run_to_end();
  expect_answers(1, 2, 50, 5);
  EXPECT_LT(at(3).finished.at(0).queue_us, at(2).finished.at(0).queue_us + 1);
  EXPECT_EQ(cached(2), 0u) << "the other had the second slot";
}

TEST_F(Forks, WhoWantsMoreOfThePromptThanItsStateReadsItAll) {
  make(8);
  submit(choice(1, 50, 5));
  auto scored = choice(2, 50, 5);
  scored.sampling.prompt_logprobs = true;
  submit(scored);
  auto counted = choice(3, 50, 5);
  counted.sampling.repetition_penalty = 1.5f;
  submit(counted);
  auto longer = choice(4, 50, 5);
  longer.tokens[20] = 7;
  submit(longer);
  run_to_end();
  expect_answers(1, 4, 50, 5);
  EXPECT_EQ(scheduler->stats().prompt_tokens, 200u);
}

TEST_F(Forks, NoClientReadsForAnother) {
  make(8);
  submit(choice(1, 50, 5));
  auto other = choice(2, 50, 5);
  other.client = "other";
  submit(other);
  run_to_end();
  EXPECT_EQ(scheduler->stats().prompt_tokens, 100u);
}

}  // namespace
}  // namespace krait::test
