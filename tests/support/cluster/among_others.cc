#include "tests/support/cluster/among_others.h"

#include <algorithm>

#include "common/base/rng.h"

namespace krait::test {
namespace {

/// Sequences in slots from 1 on that start afresh, read, decode or rest, as chance has it.
class Crowd final {
 public:
  Crowd(uint64_t seed, const EngineGroup& group, uint32_t slots) : random_(seed), group_(group), position_(slots, 0) {}

  int32_t slots() const { return static_cast<int32_t>(position_.size()); }
  /// Adds what the slots [begin, end) do to the step; returns how many rows that is.
  int32_t join(wire::Step& step, int32_t begin, int32_t end) {
    int32_t rows = 0;
    for (int32_t slot = begin; slot < end; ++slot)
      rows += join(step, slot);
    return rows;
  }
  uint64_t below(uint64_t bound) { return random_.below(bound); }

 private:
  int32_t join(wire::Step& step, int32_t slot) {
    auto& position = position_.at(static_cast<size_t>(slot));
    const uint64_t what = position > 0 ? random_.below(4) : 0;
    if (what == 3) return 0;
    auto& run = step.runs.emplace_back();
    run.out_slot = run.sequence_slot = slot;
    run.in_slot = slot;
    if (what == 0) {
      position = 0;
      wire::SamplingParams sampling;
      sampling.seed = random_.next();
      sampling.prompt_logprobs = true;
      sampling.logprobs = 2;
      step.admissions.push_back({slot, 1000, sampling, group_.pages(slot)});
      run.in_slot = -1;
    }
    run.position = position;
    for (uint64_t i = what == 1 ? 0 : 1 + random_.below(5); i > 0; --i)
      run.tokens.push_back(static_cast<int32_t>(random_.below(static_cast<uint64_t>(group_.config().vocab_size))));
    run.sample = true;
    const auto rows = static_cast<int32_t>(run.rows());
    position += static_cast<uint32_t>(rows);
    return rows;
  }

  SplitMix64 random_;
  const EngineGroup& group_;
  std::vector<uint32_t> position_;  // by slot
};

/// The watched sequence: its next chunk of the prompt, of a random size, or its next decode row.
wire::StepRun next_run(const std::vector<int32_t>& prompt, size_t& prefilled, size_t generated, Crowd& crowd) {
  wire::StepRun run;
  run.in_slot = prefilled == 0 ? -1 : 0;
  if (prefilled == prompt.size()) {
    run.position = static_cast<uint32_t>(prompt.size() + generated - 1);
    run.sample = true;
    return run;
  }
  const size_t take = std::min<size_t>(1 + crowd.below(20), prompt.size() - prefilled);
  run.position = static_cast<uint32_t>(prefilled);
  run.tokens.assign(prompt.begin() + static_cast<long>(prefilled),
                    prompt.begin() + static_cast<long>(prefilled + take));
  prefilled += take;
  run.sample = prefilled == prompt.size();
  run.prompt_logprobs = true;
  run.next_token = prefilled < prompt.size() ? prompt[prefilled] : -1;
  return run;
}

}  // namespace

SequenceResult run_among_others(const EngineGroupOptions& options, const std::vector<int32_t>& prompt,
                                uint32_t generate, const wire::SamplingParams& sampling) {
  EngineGroup group(options);
  group.keep_logits();
  Crowd crowd(29, group, options.slots);
  SequenceResult result;
  size_t prefilled = 0;
  while (result.tokens.size() < generate) {
    wire::Step step;
    const auto before = static_cast<int32_t>(1 + crowd.below(static_cast<uint64_t>(crowd.slots() - 1)));
    const int32_t first_row = crowd.join(step, 1, before);
    if (prefilled == 0) step.admissions.push_back({0, static_cast<uint32_t>(prompt.size()), sampling, group.pages(0)});
    const auto mine = next_run(prompt, prefilled, result.tokens.size(), crowd);
    step.runs.push_back(mine);
    crowd.join(step, before, crowd.slots());
    const auto done = group.step(step);
    auto& kept = mine.tokens.empty() ? result.decode_logits : result.prompt_logits;
    for (size_t i = 0; i < std::max<size_t>(1, mine.tokens.size()); ++i)
      kept.push_back(group.logits().at(first_row + static_cast<int32_t>(i)));
    for (const auto& sample : done.samples) {
      if (sample.slot == 0) result.tokens.push_back(sample.token.token);
    }
    if (prefilled == prompt.size() && result.tokens.size() == 1)
      result.after_prompt = group.state(0, static_cast<int64_t>(prompt.size()));
  }
  return result;
}

}  // namespace krait::test
