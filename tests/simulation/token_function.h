// The "model" of the simulation: each token is a function of the tokens before it and of what chooses among them, so
// that a token that is lost, doubled, misplaced or of another sequence shows in everything after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/messages.h"

namespace krait::simulation {

inline constexpr int32_t kVocab = 97;  // small, so that stop ids are met

inline uint64_t mix(uint64_t a, uint64_t b) {
  return SplitMix64(a * 0x2545F4914F6CDD1D ^ b).next();
}

/// The state of a sequence after one more token.
inline uint64_t after_token(uint64_t state, int32_t token, uint32_t position) {
  return mix(mix(state, static_cast<uint64_t>(token) + 1), position);
}

/// The token at `position`, from the state before it. Stop ids are left out while they may not be chosen.
inline int32_t choose_token(uint64_t state, const wire::SamplingParams& sampling, uint32_t position, bool may_stop) {
  const uint64_t noise = mix(mix(sampling.seed, sampling.choice), position);
  auto token = static_cast<int32_t>(mix(state, noise) % kVocab);
  const auto stops = [&](int32_t id) {
    return std::binary_search(sampling.stop_ids.begin(), sampling.stop_ids.end(), id);
  };
  for (int tries = 0; !may_stop && stops(token) && tries < kVocab; ++tries)
    token = (token + 1) % kVocab;
  return token;
}

/// What a prompt's token is scored, from the state before it.
inline float score(uint64_t state, int32_t token) {
  return -static_cast<float>(mix(state, static_cast<uint64_t>(token)) % 1000) / 64;
}

/// The whole answer to a prompt, a stop token included.
inline std::vector<int32_t> answer_of(const std::vector<int32_t>& prompt, uint32_t max_tokens,
                                      const wire::SamplingParams& sampling) {
  uint64_t state = 0;
  uint32_t position = 0;
  for (const int32_t token : prompt)
    state = after_token(state, token, position++);
  std::vector<int32_t> answer;
  while (answer.size() < max_tokens) {
    const int32_t token = choose_token(state, sampling, position, answer.size() >= sampling.min_tokens);
    answer.push_back(token);
    if (std::binary_search(sampling.stop_ids.begin(), sampling.stop_ids.end(), token)) break;
    state = after_token(state, token, position++);
  }
  return answer;
}

/// The scores of a prompt's tokens from the second on.
inline std::vector<float> scores_of(const std::vector<int32_t>& prompt) {
  std::vector<float> scores;
  uint64_t state = 0;
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    state = after_token(state, prompt[i], static_cast<uint32_t>(i));
    scores.push_back(score(state, prompt[i + 1]));
  }
  return scores;
}

}  // namespace krait::simulation
