// What a rank remembers of the sequence in each slot, besides its state: how to sample it, what it has seen.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/wire/messages.h"
#include "kernels/sampling/sample_row.h"

namespace krait::shard {

/// One slot's sequence. Every rank keeps the same, because every rank samples.
class SequenceRecord final {
 public:
  /// A new sequence takes the slot.
  void admit(const wire::Admission& admission);

  /// Tokens from `position` on have been read: prompt, or output that was generated earlier.
  void read_tokens(uint32_t position, std::span<const int32_t> tokens);

  /// `token` was sampled at `position`. A stop id sets the done flag: later rows write neither state nor token.
  void sampled(int32_t token);

  /// There was nothing to sample from: the sequence counts as done.
  void failed() { done_ = true; }

  bool admitted() const { return admitted_; }
  bool done() const { return done_; }
  int32_t last_token() const { return last_token_; }
  uint32_t prompt_tokens() const { return prompt_tokens_; }
  const wire::SamplingParams& params() const { return params_; }
  std::span<const kernels::SeenToken> seen() const { return seen_; }
  /// Pages of its keys and values, in order of position.
  std::span<const int32_t> pages() const { return pages_; }

  /// Whether the token at `position` may be a stop id already.
  bool may_stop(uint32_t position) const { return position >= prompt_tokens_ + params_.min_tokens; }

  /// Whether the token at `position` is the first of (logits x temperature + noise): then ranks exchange one candidate
  /// a row instead of whole rows.
  bool samples_by_candidate(uint32_t position) const;

  kernels::NoiseKey noise_key(uint32_t position) const { return {params_.seed, params_.choice, position}; }

  /// Parameters of the draw at `position`, `banned` included.
  kernels::SampleParams sample_params(uint32_t position) const;

 private:
  void see(int32_t token, bool in_prompt);

  bool admitted_ = false;
  bool done_ = false;
  bool keeps_history_ = false;  // penalties ask for it
  int32_t last_token_ = 0;
  uint32_t prompt_tokens_ = 0;
  wire::SamplingParams params_;
  std::vector<int32_t> pages_;
  std::vector<kernels::LogitBias> logit_bias_;
  std::vector<kernels::SeenToken> seen_;
  std::unordered_map<int32_t, size_t> seen_index_;  // token -> place in seen_
};

}  // namespace krait::shard
