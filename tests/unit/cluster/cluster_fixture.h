// Prompts and specs that the cluster's tests share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "tests/support/cluster/loopback_cluster.h"
#include "tests/support/golden.h"

namespace krait::test {

inline LoopbackClusterOptions demo_options(int world = 1, int threads = 1) {
  LoopbackClusterOptions options;
  options.model_dir = source_path("deploy/demo_model");
  options.world = world;
  options.threads = threads;
  return options;
}

inline std::vector<int32_t> random_prompt(SplitMix64& random, size_t tokens) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>(1 + random.below(4000)));
  return prompt;
}

/// Everything whose bits the contract promises: tokens, their logprobs, alternatives, logprobs of the prompt.
struct Answer final {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> bits;  // of all logprobs, so that a zero's sign and the last place count
  friend bool operator==(const Answer&, const Answer&) = default;
};

inline Answer answer_of(const RecordingSink::Sequence& sequence) {
  Answer answer;
  answer.tokens = sequence.ids();
  const auto add = [&](float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    answer.bits.push_back(bits);
  };
  for (const auto* list : {&sequence.prompt_logprobs, &sequence.tokens}) {
    for (const auto& token : *list) {
      add(token.logprob);
      for (const auto& top : token.top) {
        answer.tokens.push_back(top.token);
        add(top.logprob);
      }
    }
  }
  return answer;
}

}  // namespace krait::test
