// Random requests, cancels, deadlines and step results against a model that only knows what each request asked for.
#include "common/base/rng.h"
#include "common/base/units.h"
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

class RandomOperations : public SchedulerFixture, public testing::WithParamInterface<uint64_t> {
 protected:
  void submit_one() {
    const uint64_t number = ++last_number;
    if (random.below(2) == 0) prompt_tokens = 1 + random.below(60);  // else the same prompt again
    auto submitted = request(number, prompt_tokens, static_cast<uint32_t>(random.below(12)));
    submitted.tokens[0] = static_cast<int32_t>(prompt_tokens);
    submitted.sampling.prompt_logprobs = random.below(4) == 0;
    for (uint64_t i = random.below(60); i > 0; --i) {
      submitted.sampling.stop_ids.push_back(static_cast<int32_t>(random.below(kVocab)));
    }
    std::sort(submitted.sampling.stop_ids.begin(), submitted.sampling.stop_ids.end());
    if (random.below(5) == 0) submitted.deadline_ms = static_cast<int64_t>(1 + random.below(30));
    if (random.below(2) == 0) client = std::string(random.below(4), 'k');
    submitted.client = client;
    asked[number] = submitted;
    submit(submitted, random.below(2) == 0 ? "c" : "d");
  }

  void check_balance() {
    uint32_t open = 0;
    for (const auto& [key, got] : received) {
      open += got.accepted > 0 && got.finished.empty() ? 1 : 0;
      EXPECT_LE(got.finished.size() + got.rejected.size(), 1u) << "a request ends once";
    }
    EXPECT_EQ(scheduler->running() + scheduler->waiting(), open);
    EXPECT_EQ(scheduler->running() + scheduler->free_slots(), kSlots);
    EXPECT_LE(scheduler->waiting(), kQueue + 1 + kSlots) << "the reserve of six is one";
    EXPECT_LE(scheduler->plans_in_flight(), 2u);
  }

  /// Tokens as the seed says, up to the first stop id or max_tokens, or a part of that when it was cut short.
  void check_request(const Received& got, const wire::Submit& submitted) {
    if (!got.rejected.empty()) return;
    ASSERT_EQ(got.finished.size(), 1u) << "request " << submitted.request;
    const auto reason = got.finished[0].reason;
    auto whole = expected_tokens(submitted.request, submitted.tokens.size(), submitted.max_tokens);
    const auto& stops = submitted.sampling.stop_ids;
    const auto stop = std::find_if(whole.begin(), whole.end(), [&](int32_t token) {
      return std::binary_search(stops.begin(), stops.end(), token);
    });
    const bool stops_itself = stop != whole.end();
    if (stops_itself) whole.erase(stop + 1, whole.end());
    ASSERT_LE(got.tokens.size(), whole.size());
    EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), whole.begin()));
    EXPECT_EQ(got.finished[0].generated, got.tokens.size());
    const bool ran_to_its_end = reason == wire::FinishReason::kStop || reason == wire::FinishReason::kLength;
    if (ran_to_its_end) {
      EXPECT_EQ(got.tokens, whole);
      EXPECT_EQ(reason == wire::FinishReason::kStop, stops_itself);
      const size_t scored = submitted.sampling.prompt_logprobs ? submitted.tokens.size() - 1 : 0;
      EXPECT_EQ(got.scored.size(), scored);
    }
  }

  static constexpr uint32_t kSlots = 5;
  static constexpr uint32_t kQueue = 6;
  SplitMix64 random{GetParam()};
  uint64_t last_number = 0;
  size_t prompt_tokens = 1;
  std::string client;
  std::map<uint64_t, wire::Submit> asked;
};

TEST_P(RandomOperations, SlotsAndQueueBalanceAndEveryRequestEndsOnce) {
  const bool pages = random.below(2) == 0;
  make(kSlots, step_ms_for(24), kQueue, 64, pages ? 14 : 0);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t dice = random.below(10);
    if (dice < 2) {
      submit_one();
    } else if (dice < 3 && last_number > 0) {
      // Old numbers and those of the other coordinator among them: no error.
      const uint64_t back = random.below(std::min<uint64_t>(last_number, 12));
      scheduler->cancel(random.below(2) == 0 ? "c" : "d", {last_number - back, 0});
      take();
    } else if (dice < 4) {
      clock.advance(static_cast<int64_t>(random.below(5)) * kMs);
      scheduler->expire();
      take();
    } else if (dice < 7) {
      if (auto step = scheduler->plan()) flying.push_back(*std::move(step));
    } else if (!flying.empty()) {
      finish_one();
    }
    check_balance();
    if (testing::Test::HasFailure()) FAIL() << "after operation " << i;
  }
  run_to_end();
  int ended = 0;
  for (const auto& [key, got] : received) {
    check_request(got, asked.at(key.second));
    ended += got.rejected.empty() ? 1 : 0;
  }
  EXPECT_GT(ended, 100);
  EXPECT_EQ(scheduler->free_slots(), kSlots);
  EXPECT_EQ(scheduler->used_pages(), 0u);
  EXPECT_EQ(scheduler->waiting(), 0u);
  EXPECT_EQ(scheduler->backlog_seconds(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations, testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace krait::test
