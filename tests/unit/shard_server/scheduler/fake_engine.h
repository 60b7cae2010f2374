// The ranks' side of the plan contract without a model: checks every plan as an engine would have to rely on it, and
// answers with tokens that depend on a sequence's seed and the position alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
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
      sequences_[admission.slot] = {admission, {}, 0, false, false};
    }
    wire::StepDone done;
    done.step = step.step;
    std::set<int32_t> used;
    int32_t rows = 0;
    for (const auto& run : step.runs) {
      EXPECT_TRUE(in_range(run.sequence_slot));
      EXPECT_TRUE(used.insert(run.sequence_slot).second) << "a plan holds a sequence once";
      check_pages(run);
      run_one(run, done);
      const auto end = rows + static_cast<int32_t>(run.rows());
      for (const auto& tap : step.taps) {
        if (tap.row >= rows && tap.row < end) taken_.push_back({tap.slot, run.sequence_slot, end - 1 - tap.row});
      }
      rows = end;
    }
    EXPECT_EQ(taken_.size(), step.taps.size()) << "a tap outside the batch";
    for (const Taken& tap : std::exchange(taken_, {}))
      fork(tap, used);
    const bool shared = step.runs.size() == 1 && step.runs[0].ranks > 1;
    EXPECT_LE(rows, shared ? step.runs[0].ranks * limits::kSharedPromptRows : max_rows_);
    EXPECT_GT(rows, 0);
    return done;
  }

  /// The model has keys and values: every row needs its page, and finds there what the rows before it have left.
  void expect_pages() { needs_pages_ = true; }

 private:
  struct Sequence final {
    wire::Admission admission;
    std::vector<int32_t> read;  // tokens: its state
    int32_t last_token = 0;
    bool has_token = false;  // one was sampled
    bool done = false;
  };
  /// A state that is copied behind all but the last `rows_after` rows of a run.
  struct Taken final {
    int32_t to = 0;
    int32_t from = 0;
    int32_t rows_after = 0;
  };

  void fork(const Taken& tap, std::set<int32_t>& used) {
    EXPECT_TRUE(in_range(tap.to));
    EXPECT_TRUE(sequences_.contains(tap.to)) << "a tap needs an admission first";
    EXPECT_TRUE(used.insert(tap.to).second) << "a slot is written twice";
    const auto& source = sequences_.at(tap.from).read;
    sequences_[tap.to].read.assign(source.begin(), source.end() - tap.rows_after);
  }

  /// What a row leaves in its page: all that the sequence has read.
  static uint64_t key_of(uint64_t before, int32_t token) {
    return SplitMix64(before * 31 + static_cast<uint64_t>(token)).next();
  }
  uint64_t& kept(const Sequence& sequence, size_t position) {
    const auto page = position / limits::kKvPageTokens;
    EXPECT_LT(page, sequence.admission.pages.size()) << "a row has no page";
    const size_t at = std::min(page, sequence.admission.pages.size() - 1);
    return kept_[sequence.admission.pages[at] * limits::kKvPageTokens +
                 static_cast<int64_t>(position % limits::kKvPageTokens)];
  }
  void check_pages(const wire::StepRun& run) {
    if (!needs_pages_) return;
    const Sequence& sequence = sequences_[run.sequence_slot];
    auto tokens = sequence.read;
    const auto more = run.tokens.empty() ? std::vector<int32_t>{sequence.last_token} : run.tokens;
    tokens.insert(tokens.end(), more.begin(), more.end());
    uint64_t key = 0;
    for (size_t position = 0; position < tokens.size(); ++position) {
      key = key_of(key, tokens[position]);
      if (position < sequence.read.size()) {
        EXPECT_EQ(kept(sequence, position), key) << "position " << position << " is not this sequence's";
      } else {
        kept(sequence, position) = key;
      }
    }
  }

  bool in_range(int32_t slot) const { return slot >= 0 && slot < slots_; }

  void run_one(const wire::StepRun& run, wire::StepDone& done) {
    ASSERT_TRUE(sequences_.contains(run.sequence_slot)) << "a run needs an admission first";
    Sequence& sequence = sequences_.at(run.sequence_slot);
    EXPECT_EQ(run.in_slot, run.position == 0 ? -1 : run.sequence_slot);
    EXPECT_EQ(run.out_slot, run.sequence_slot);
    EXPECT_EQ(run.position, sequence.read.size()) << "a sequence's rows come in order, none left out";
    if (run.tokens.empty()) {
      EXPECT_TRUE(sequence.has_token) << "the last sampled token is asked for before there is one";
      EXPECT_TRUE(run.sample);
      sequence.read.push_back(sequence.last_token);
    }
    sequence.read.insert(sequence.read.end(), run.tokens.begin(), run.tokens.end());
    if (run.prompt_logprobs) {
      auto& scores = done.prompt_logprobs.emplace_back(wire::RowLogprobs{run.sequence_slot, run.position + 1, {}});
      for (size_t i = 1; i < run.tokens.size(); ++i)
        scores.entries.push_back({run.tokens[i], -1.0f, {}});
      if (run.next_token >= 0) scores.entries.push_back({run.next_token, -1.0f, {}});
    }
    if (!run.sample) return;
    if (sequence.done) {
      done.samples.push_back({run.sequence_slot, true, {}});
      return;
    }
    const auto& sampling = sequence.admission.sampling;
    const int32_t token = fake_token(sampling.seed, static_cast<uint32_t>(sequence.read.size()), vocab_size_);
    sequence.has_token = true;
    sequence.last_token = token;
    sequence.done = std::binary_search(sampling.stop_ids.begin(), sampling.stop_ids.end(), token);
    done.samples.push_back({run.sequence_slot, false, {token, 0, {}}});
  }

  bool needs_pages_ = false;
  std::map<int64_t, uint64_t> kept_;  // in pages, by token's place
  std::vector<Taken> taken_;
  const int32_t slots_;
  const int64_t max_rows_;
  const int64_t vocab_size_;
  uint64_t steps_ = 0;
  std::map<int32_t, Sequence> sequences_;
};

}  // namespace krait::test
