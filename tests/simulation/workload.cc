#include "tests/simulation/workload.h"

#include <algorithm>

#include "tests/simulation/token_function.h"

namespace krait::simulation {

requests::SequenceSpec Workload::sequence(size_t prompt_tokens, uint32_t max_tokens) {
  requests::SequenceSpec sequence;
  for (size_t i = 0; i < prompt_tokens; ++i)
    sequence.tokens.push_back(static_cast<int32_t>(random_.below(kVocab)));
  sequence.max_tokens = max_tokens;
  sequence.sampling.seed = ++last_seed_;
  return sequence;
}

requests::GenerationSpec Workload::plain() {
  requests::GenerationSpec spec;
  spec.model = "m";
  spec.client = "fresh";
  spec.timeout_ms = kPatientMs;
  spec.sequences.push_back(sequence(5, 6));
  return spec;
}

requests::GenerationSpec Workload::any() {
  requests::GenerationSpec spec;
  spec.model = "m";
  spec.client = random_.below(2) == 0 ? "one" : "another";
  spec.timeout_ms = random_.below(6) == 0 ? static_cast<int64_t>(5 + random_.below(400)) : kPatientMs;
  const size_t prompt_tokens = 1 + random_.below(random_.below(4) == 0 ? 90 : 20);
  const auto max_tokens = static_cast<uint32_t>(random_.below(random_.below(4) == 0 ? 40 : 12));
  auto first = sequence(prompt_tokens, max_tokens);
  auto& sampling = first.sampling;
  sampling.prompt_logprobs = random_.below(5) == 0;
  for (uint64_t i = random_.below(3) == 0 ? random_.below(8) : 0; i > 0; --i)
    sampling.stop_ids.push_back(static_cast<int32_t>(random_.below(kVocab)));
  std::sort(sampling.stop_ids.begin(), sampling.stop_ids.end());
  if (random_.below(4) == 0) sampling.min_tokens = static_cast<uint32_t>(random_.below(6));
  if (random_.below(25) == 0) first.tokens.back() = kVocab;  // there is no such token
  const size_t choices = random_.below(4) == 0 ? 2 + random_.below(3) : 1;
  for (size_t choice = 0; choice < choices; ++choice) {
    spec.sequences.push_back(first);
    spec.sequences.back().sampling.choice = static_cast<uint32_t>(choice);
  }
  return spec;
}

}  // namespace krait::simulation
