#include "coordinator/requests/generation.h"

namespace krait::requests {

wire::Submit GenerationSpec::submit(size_t sequence) const {
  const PromptSpec& prompt = prompts.at(sequence / n);
  wire::Submit submit;
  submit.model = model;
  submit.tokens = prompt.tokens;
  submit.max_tokens = shared.max_tokens;
  submit.sampling = shared.sampling;
  submit.sampling.seed = prompt.seed;
  submit.sampling.choice = static_cast<uint32_t>(sequence % n);
  // The leader's own clock is the backstop, in case this coordinator cannot say Cancel any more.
  submit.deadline_ms = timeout_ms;
  submit.client = client;
  return submit;
}

}  // namespace krait::requests
