#include "tests/simulation/workload.h"

#include <algorithm>

#include "tests/simulation/token_function.h"

namespace krait::simulation {

requests::GenerationSpec Workload::sequence(size_t prompt_tokens, uint32_t max_tokens) {
  requests::GenerationSpec spec;
  spec.model = "m";
  requests::PromptSpec& prompt = spec.prompts.emplace_back();
  for (size_t i = 0; i < prompt_tokens; ++i)
    prompt.tokens.push_back(static_cast<int32_t>(random_.below(kVocab)));
  prompt.seed = ++last_seed_;
  spec.shared.max_tokens = max_tokens;
  return spec;
}

requests::GenerationSpec Workload::plain() {
  requests::GenerationSpec spec = sequence(5, 6);
  spec.client = "fresh";
  spec.timeout_ms = kPatientMs;
  return spec;
}

requests::GenerationSpec Workload::any() {
  const std::string client = random_.below(2) == 0 ? "one" : "another";
  const int64_t timeout_ms = random_.below(6) == 0 ? static_cast<int64_t>(5 + random_.below(400)) : kPatientMs;
  const size_t prompt_tokens = 1 + random_.below(random_.below(4) == 0 ? 90 : 20);
  const auto max_tokens = static_cast<uint32_t>(random_.below(random_.below(4) == 0 ? 40 : 12));
  requests::GenerationSpec spec = sequence(prompt_tokens, max_tokens);
  spec.client = client;
  spec.timeout_ms = timeout_ms;
  auto& sampling = spec.shared.sampling;
  sampling.prompt_logprobs = random_.below(5) == 0;
  for (uint64_t i = random_.below(3) == 0 ? random_.below(8) : 0; i > 0; --i)
    sampling.stop_ids.push_back(static_cast<int32_t>(random_.below(kVocab)));
  std::sort(sampling.stop_ids.begin(), sampling.stop_ids.end());
  if (random_.below(4) == 0) sampling.min_tokens = static_cast<uint32_t>(random_.below(6));
  if (random_.below(25) == 0) spec.prompts[0].tokens.back() = kVocab;  // there is no such token
  if (random_.below(4) == 0) spec.n = static_cast<uint32_t>(2 + random_.below(3));
  return spec;
}

}  // namespace krait::simulation
