// A scheduler, an engine that checks its plans, and what a coordinator would have received.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "shard_server/scheduler/scheduler.h"
#include "tests/unit/shard_server/scheduler/fake_engine.h"

namespace krait::test {

/// What came back about one request.
struct Received final {
  int accepted = 0;
  std::vector<int32_t> tokens;
  std::vector<int32_t> scored;           // tokens of prompt logprobs, from position 1 on
  std::vector<wire::Finished> finished;  // one, when all is well
  std::vector<wire::Rejected> rejected;
};

struct SchedulerFixture : testing::Test {
  static constexpr int64_t kVocab = 1000;

  /// Rows that fit a step: before any step was measured a row is taken to cost half a millisecond.
  static double step_ms_for(int64_t rows) { return static_cast<double>(rows) * 0.5; }

  /// The same for a step without a decode row.
  static double lone_step_ms_for(int64_t rows) { return step_ms_for(rows) / limits::kLonePrefillFactor; }

  void make(uint32_t slots, double max_step_ms = 50, uint32_t max_queue = 100, int64_t max_step_rows = 2048,
            uint32_t kv_pages = 0) {
    scheduler::SchedulerOptions options;
    options.model = "m";
    options.numerics_id = "n";
    options.vocab_size = kVocab;
    options.slots = slots;
    options.kv_pages = kv_pages;
    options.max_queue = max_queue;
    options.max_step_ms = max_step_ms;
    options.max_step_rows = max_step_rows;
    options.homes.world = homes;
    options.prompt_ranks = prompt_ranks;
    scheduler.emplace(options, clock);
    engine.emplace(static_cast<int32_t>(slots), max_step_rows, kVocab);
    if (kv_pages > 0) engine->expect_pages();
  }

  static wire::Submit request(uint64_t number, size_t prompt, uint32_t max_tokens) {
    wire::Submit submit;
    submit.request = number;
    submit.model = "m";
    submit.tokens.resize(prompt);
    std::iota(submit.tokens.begin(), submit.tokens.end(), 1);
    // Other prompts than others', that nobody reads one for another.
    if (prompt > 0) submit.tokens[0] = static_cast<int32_t>(number % kVocab);
    submit.max_tokens = max_tokens;
    submit.sampling.seed = number;
    return submit;
  }

  void submit(wire::Submit submit, const std::string& peer = "c") {
    scheduler->submit(peer, std::move(submit));
    take();
  }

  /// Takes what the scheduler says; tokens must come in order, without gap, and nothing after the end.
  void take() {
    for (auto& out : scheduler->take_outgoing()) {
      if (const auto* accepted = std::get_if<wire::Accepted>(&out.message)) ++at(out.peer, accepted->request).accepted;
      if (auto* finished = std::get_if<wire::Finished>(&out.message)) {
        at(out.peer, finished->request).finished.push_back(*finished);
      }
      if (auto* rejected = std::get_if<wire::Rejected>(&out.message)) {
        at(out.peer, rejected->request).rejected.push_back(*rejected);
      }
      if (const auto* tokens = std::get_if<wire::Tokens>(&out.message)) take(out.peer, *tokens);
    }
  }

  void take(const std::string& peer, const wire::Tokens& tokens) {
    for (const auto& chunk : tokens.chunks) {
      Received& got = at(peer, chunk.request);
      EXPECT_TRUE(got.finished.empty()) << "news of request " << chunk.request << " after its end";
      EXPECT_FALSE(chunk.tokens.empty() && chunk.prompt_logprobs.empty());
      if (!chunk.tokens.empty()) {
        EXPECT_EQ(chunk.first_index, generated_before[chunk.request] + got.tokens.size());
      }
      if (!chunk.prompt_logprobs.empty()) {
        EXPECT_EQ(chunk.first_position, got.scored.size() + 1);
      }
      for (const auto& token : chunk.tokens)
        got.tokens.push_back(token.token);
      for (const auto& token : chunk.prompt_logprobs)
        got.scored.push_back(token.token);
    }
  }

  Received& at(const std::string& peer, uint64_t number) { return received[{peer, number}]; }
  Received& at(uint64_t number) { return at("c", number); }

  /// Makes plans until the scheduler has no more for now.
  std::vector<wire::Step> plan_all() {
    std::vector<wire::Step> made;
    while (auto step = scheduler->plan()) {
      made.push_back(*step);
      flying.push_back(*std::move(step));
    }
    return made;
  }

  /// The oldest plan in flight is done.
  void finish_one() {
    ASSERT_FALSE(flying.empty());
    const auto done = engine->run(flying.front());
    flying.pop_front();
    const auto taken = scheduler->step_done(done);
    ASSERT_TRUE(taken.ok()) << to_string(taken.error());
    take();
  }

  void run_to_end(int most_steps = 10'000) {
    while (most_steps-- > 0) {
      plan_all();
      if (flying.empty()) return;
      finish_one();
    }
    FAIL() << "it never ends";
  }

  static std::vector<int32_t> expected_tokens(uint64_t seed, size_t prompt, uint32_t count) {
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < count; ++i)
      tokens.push_back(fake_token(seed, static_cast<uint32_t>(prompt) + i, kVocab));
    return tokens;
  }

  int homes = 1;  // for make()
  uint32_t prompt_ranks = 1;
  ManualClock clock{1'000'000};
  std::optional<scheduler::Scheduler> scheduler;
  std::optional<FakeEngine> engine;
  std::deque<wire::Step> flying;
  std::map<std::pair<std::string, uint64_t>, Received> received;
  std::map<uint64_t, size_t> generated_before;  // of requests that another group had begun
};

}  // namespace krait::test
