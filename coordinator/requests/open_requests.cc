#include "coordinator/requests/open_requests.h"

#include <utility>

namespace krait::requests {
namespace {

/// Of all prompts as they are sent, each to all of its choices. What the request has of stop strings and biases counts
/// as the tokens that would take the same memory.
int64_t tokens_of(const GenerationSpec& spec) {
  size_t tokens = 0;
  for (const PromptSpec& prompt : spec.prompts)
    tokens += prompt.tokens.size() * spec.n;
  const SharedSpec& shared = spec.shared;
  const size_t bytes = (shared.stop != nullptr ? shared.stop->bytes() : 0) +
                       shared.sampling.logit_bias.size() * sizeof(shared.sampling.logit_bias[0]);
  return static_cast<int64_t>(tokens + bytes / sizeof(int32_t));
}

}  // namespace

std::optional<OpenRequests::Hold> OpenRequests::take(const GenerationSpec& spec) {
  auto sequences = sequences_.take(spec.client, static_cast<int64_t>(spec.sequences()));
  if (!sequences) return std::nullopt;
  auto tokens = tokens_.take(spec.client, tokens_of(spec));
  if (!tokens) return std::nullopt;
  return Hold{*std::move(sequences), *std::move(tokens)};
}

}  // namespace krait::requests
