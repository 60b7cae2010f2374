// Pages of keys and values: reserved when a sequence begins, nobody's twice, back when it ends.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/rng.h"
#include "tests/unit/shard_server/scheduler/scheduler_fixture.h"

namespace krait::test {
namespace {

struct Pages : SchedulerFixture {
  void with_pages(uint32_t pages, uint32_t slots = 4) { make(slots, 50, 100, 2048, pages); }
};

TEST_F(Pages, AreReservedForPromptAndOutput) {
  with_pages(10);
  submit(request(1, 20, 13));  // 33 tokens: three pages
  ASSERT_EQ(plan_all().size(), 2u);
  EXPECT_EQ(flying.front().admissions.at(0).pages.size(), 3u);
  EXPECT_EQ(scheduler->free_pages(), 7u);
  run_to_end();
  EXPECT_EQ(scheduler->free_pages(), 10u);
  EXPECT_EQ(at(1).tokens, expected_tokens(1, 20, 13));
}

TEST_F(Pages, OfAModelWithoutKeysAreNone) {
  make(2);
  submit(request(1, 20, 3));
  plan_all();
  EXPECT_TRUE(flying.front().admissions.at(0).pages.empty());
}

TEST_F(Pages, WhoeverIsNextWaitsForThemAndItsOwnClientsOthersDoToo) {
  with_pages(4);
  submit(request(1, 30, 18));  // three pages of four
  submit(request(2, 40, 20));  // four
  submit(request(3, 5, 5));    // one, which would fit
  plan_all();
  EXPECT_EQ(scheduler->running(), 1u);
  EXPECT_EQ(scheduler->waiting(), 2u);
  run_to_end();
  for (const uint64_t number : {1, 2, 3})
    ASSERT_EQ(at(number).finished.size(), 1u);
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 40, 20));
  EXPECT_EQ(scheduler->free_pages(), 4u);
}

wire::Submit of_client(wire::Submit submit, const std::string& client) {
  submit.client = client;
  return submit;
}

TEST_F(Pages, OtherClientsPassOneThatWaitsForMany) {
  with_pages(8, 8);
  submit(of_client(request(1, 20, 60), "first"));  // five pages, for 60 steps
  plan_all();
  submit(of_client(request(2, 60, 20), "large"));  // five more
  submit(of_client(request(3, 5, 5), "small"));
  submit(of_client(request(4, 9, 5), "modest"));
  for (int step = 0; step < 12; ++step) {
    plan_all();
    finish_one();
  }
  EXPECT_EQ(at(3).finished.size() + at(4).finished.size(), 2u) << "long before the first one's end";
  EXPECT_TRUE(at(2).tokens.empty());
  run_to_end();
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 60, 20));
}

TEST_F(Pages, WhoWaitsForManyIsPassedOnlySoOften) {
  with_pages(8, 8);
  submit(of_client(request(1, 20, 13), "first"));  // three pages
  plan_all();
  submit(of_client(request(2, 90, 20), "large"));  // seven
  uint64_t next = 10;
  const auto small_ones = [&] {
    // Two clients, each with one begun and several waiting: a turn that goes on with the next one counts as well.
    for (; scheduler->waiting() < 7; ++next)
      submit(of_client(request(next, 10, 20), next % 2 == 0 ? "even" : "odd"));  // two pages
  };
  int steps = 0;
  while (at(2).tokens.empty() && steps < 400) {
    small_ones();
    plan_all();
    finish_one();
    ++steps;
  }
  EXPECT_LT(steps, 100) << "eight pages' worth passed it, then it was its turn";
  const auto begun =
      std::count_if(received.begin(), received.end(), [](const auto& entry) { return !entry.second.tokens.empty(); });
  EXPECT_LE(begun, 2 + 4);
  run_to_end();
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 90, 20));
  EXPECT_EQ(scheduler->free_pages(), 8u);
}

TEST_F(Pages, MoreThanThereAreIsRefusedByName) {
  with_pages(4);
  submit(request(1, 50, 14));
  submit(request(2, 50, 15));
  EXPECT_EQ(at(1).accepted, 1);
  ASSERT_EQ(at(2).rejected.size(), 1u);
  EXPECT_EQ(at(2).rejected[0].error.code, Errc::kInvalidArgument);
  EXPECT_EQ(at(2).rejected[0].error.param, "max_tokens");
  EXPECT_EQ(at(2).rejected[0].retry_after_s, 0u);
}

TEST_F(Pages, OfACancelledSequenceAreFreeAtOnce) {
  with_pages(4);
  submit(request(1, 30, 30));
  submit(request(2, 30, 30));
  plan_all();
  scheduler->cancel("c", {1, 0});
  EXPECT_EQ(scheduler->free_pages(), 4u);
  run_to_end();
  EXPECT_EQ(at(2).tokens, expected_tokens(2, 30, 30));
}

TEST_F(Pages, AnyMixtureKeepsThemApart) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 random(seed);
    received.clear();
    with_pages(12, 6);
    uint64_t next = 1;
    for (int round = 0; round < 400; ++round) {
      const uint64_t what = random.below(6);
      if (what == 0 && next <= 60) {
        submit(request(next, 1 + random.below(90), static_cast<uint32_t>(1 + random.below(60))));
        ++next;
      } else if (what == 1 && next > 1) {
        scheduler->cancel("c", {1 + random.below(next - 1), 0});
        take();
      } else if (what < 4) {
        plan_all();
      } else if (!flying.empty()) {
        finish_one();
      }
      ASSERT_LE(scheduler->free_pages(), 12u);
    }
    run_to_end();
    EXPECT_EQ(scheduler->free_pages(), 12u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace krait::test
