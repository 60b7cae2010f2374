#include "shard_server/engine/sequence_table.h"

#include <algorithm>

namespace krait::shard {

void SequenceRecord::admit(const wire::Admission& admission) {
  admitted_ = true;
  done_ = false;
  last_token_ = 0;
  prompt_tokens_ = admission.prompt_tokens;
  params_ = admission.sampling;
  pages_ = admission.pages;
  keeps_history_ = params_.presence_penalty != 0 || params_.frequency_penalty != 0 || params_.repetition_penalty != 1;
  logit_bias_.clear();
  for (const auto& bias : params_.logit_bias)
    logit_bias_.push_back({bias.token, bias.bias});
  seen_.clear();
  seen_index_.clear();
}

void SequenceRecord::read_tokens(uint32_t position, std::span<const int32_t> tokens) {
  if (!keeps_history_) return;
  for (const int32_t token : tokens)
    see(token, position++ < prompt_tokens_);
}

void SequenceRecord::sampled(int32_t token) {
  last_token_ = token;
  done_ = std::binary_search(params_.stop_ids.begin(), params_.stop_ids.end(), token);
  if (keeps_history_) see(token, false);
}

void SequenceRecord::see(int32_t token, bool in_prompt) {
  const auto [at, is_new] = seen_index_.try_emplace(token, seen_.size());
  if (is_new) seen_.push_back({token, 0, false});
  auto& seen = seen_[at->second];
  if (in_prompt) {
    seen.in_prompt = true;
  } else {
    ++seen.output_count;
  }
}

bool SequenceRecord::samples_by_candidate(uint32_t position) const {
  const auto& p = params_;
  const bool plain_draw = kernels::is_greedy(p.temperature) || (p.top_p >= 1 && p.min_p <= 0 && p.top_k <= 0);
  return plain_draw && p.logprobs < 0 && !keeps_history_ && logit_bias_.empty() &&
         (may_stop(position) || p.stop_ids.empty());
}

kernels::SampleParams SequenceRecord::sample_params(uint32_t position) const {
  kernels::SampleParams params;
  params.temperature = params_.temperature;
  params.min_p = params_.min_p;
  params.top_k = params_.top_k;
  params.top_p = double{params_.top_p};
  params.presence_penalty = params_.presence_penalty;
  params.frequency_penalty = params_.frequency_penalty;
  params.repetition_penalty = params_.repetition_penalty;
  params.logit_bias = logit_bias_;
  if (!may_stop(position)) params.banned = params_.stop_ids;
  params.key = noise_key(position);
  return params;
}

}  // namespace krait::shard
