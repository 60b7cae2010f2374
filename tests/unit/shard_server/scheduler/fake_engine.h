// The ranks' side of the plan contract without a model: checks every plan as an engine would have to rely on it, and
// answers with tokens that depend on a sequence's seed and the position alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/limits.h"
#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace krait::test {

/// The token that follows `position - 1` tokens of a sequence with this seed.
inline int32_t fake_token(uint64_t seed, uint32_t position, int64_t vocab_size) {
  return static_cast<int32_t>(SplitMix64(seed * 1'000'003 + position).below(static_cast<uint64_t>(vocab_size)));
}

class FakeEngine final {
 public:
  FakeEngine(int32_t slots, int64_t max_rows, int64_t vocab_size)
      : slots_(slots), max_rows_(max_rows), vocab_size_(vocab_size) {}

  /// Runs a plan. Breaches of the contract are test failures.
  wire::StepDone run(const wire::Step& step) {
    EXPECT_EQ(step.step, ++steps_) << "plans are numbered without gap";
    for (const auto& admission : step.admissions) {
      EXPECT_TRUE(in_range(admission.slot));
      for (const int32_t page : admission.pages)
        page_owner_[page] = admission.slot;
      sequences_[admission.slot] = {admission, 0, false, false};
    }
    wire::StepDone done;
    done.step = step.step;
    std::set<int32_t> used;
    int64_t rows = 0;
    for (const auto& run : step.runs) {
      EXPECT_TRUE(in_range(run.sequence_slot));
      EXPECT_TRUE(used.insert(run.sequence_slot).second) << "a plan holds a sequence once";
      check_pages(run);
      rows += std::max<int64_t>(1, static_cast<int64_t>(run.tokens.size()));
      run_one(run, done);
    }
    EXPECT_LE(rows, max_rows_);
    EXPECT_GT(rows, 0);
    return done;
  }

  /// The model has keys and values: every row needs its page.
  void expect_pages() { needs_pages_ = true; }

 private:
  void check_pages(const wire::StepRun& run) {
    if (!needs_pages_) return;
    const auto& pages = sequences_[run.sequence_slot].admission.pages;
    const auto rows = std::max<int64_t>(1, static_cast<int64_t>(run.tokens.size()));
    EXPECT_GE(static_cast<int64_t>(pages.size()) * limits::kKvPageTokens, run.position + rows) << "a row has no page";
    for (const int32_t page : pages)
      EXPECT_EQ(page_owner_[page], run.sequence_slot) << "page " << page << " is another sequence's";
  }

  struct Sequence final {
    wire::Admission admission;
    uint32_t next_position = 0;
    bool has_token = false;  // one was sampled
    bool done = false;
  };

  bool in_range(int32_t slot) const { return slot >= 0 && slot < slots_; }

  void run_one(const wire::StepRun& run, wire::StepDone& done) {
    ASSERT_TRUE(sequences_.contains(run.sequence_slot)) << "a run needs an admission first";
    Sequence& sequence = sequences_.at(run.sequence_slot);
    EXPECT_EQ(run.in_slot, run.position == 0 ? -1 : run.sequence_slot);
    EXPECT_EQ(run.out_slot, run.sequence_slot);
    EXPECT_EQ(run.position, sequence.next_position) << "a sequence's rows come in order, none left out";
    if (run.tokens.empty()) {
      EXPECT_TRUE(sequence.has_token) << "the last sampled token is asked for before there is one";
      EXPECT_TRUE(run.sample);
    }
    const auto rows = std::max<uint32_t>(1, static_cast<uint32_t>(run.tokens.size()));
    if (run.prompt_logprobs) {
      auto& scores = done.prompt_logprobs.emplace_back(wire::RowLogprobs{run.sequence_slot, run.position + 1, {}});
      for (size_t i = 1; i < run.tokens.size(); ++i)
        scores.entries.push_back({run.tokens[i], -1.0f, {}});
      if (run.next_token >= 0) scores.entries.push_back({run.next_token, -1.0f, {}});
    }
    sequence.next_position += rows;
    if (!run.sample) return;
    if (sequence.done) {
      done.samples.push_back({run.sequence_slot, true, {}});
      return;
    }
    const auto& sampling = sequence.admission.sampling;
    const int32_t token = fake_token(sampling.seed, sequence.next_position, vocab_size_);
    sequence.has_token = true;
    sequence.done = std::binary_search(sampling.stop_ids.begin(), sampling.stop_ids.end(), token);
    done.samples.push_back({run.sequence_slot, false, {token, 0, {}}});
  }

  bool needs_pages_ = false;
  std::map<int32_t, int32_t> page_owner_;  // slot, by page
  const int32_t slots_;
  const int64_t max_rows_;
  const int64_t vocab_size_;
  uint64_t steps_ = 0;
  std::map<int32_t, Sequence> sequences_;
};

}  // namespace krait::test
