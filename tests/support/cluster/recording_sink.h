// Keeps what a request's client would have seen, and checks the order of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/requests/generation.h"

namespace krait::test {

class RecordingSink final : public requests::GenerationSink {
 public:
  struct Sequence final {
    std::string text;
    std::vector<wire::TokenInfo> tokens;
    std::vector<wire::TokenInfo> prompt_logprobs;
    std::optional<requests::SequenceEnd> end;
    std::vector<int32_t> ids() const {
      std::vector<int32_t> all;
      for (const auto& token : tokens)
        all.push_back(token.token);
      return all;
    }
  };

  explicit RecordingSink(size_t sequences) : sequences_(sequences) {}

  void on_chunk(requests::OutputChunk chunk) override {
    EXPECT_FALSE(error_.has_value()) << "news after an error";
    ASSERT_LT(chunk.sequence, sequences_.size());
    Sequence& sequence = sequences_[chunk.sequence];
    EXPECT_FALSE(sequence.end.has_value()) << "news after the end";
    if (!chunk.prompt_logprobs.empty()) {
      EXPECT_EQ(chunk.first_prompt_position, sequence.prompt_logprobs.size() + 1);
    }
    sequence.text += chunk.text;
    sequence.tokens.insert(sequence.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    sequence.prompt_logprobs.insert(sequence.prompt_logprobs.end(), chunk.prompt_logprobs.begin(),
                                    chunk.prompt_logprobs.end());
    if (chunk.end) {
      EXPECT_EQ(chunk.end->generated, sequence.tokens.size());
      sequence.end = std::move(chunk.end);
    }
  }

  void on_error(const Error& error, uint32_t retry_after_s) override {
    EXPECT_FALSE(error_.has_value()) << "two errors";
    EXPECT_FALSE(finished()) << "an error after the end";
    error_ = error;
    retry_after_s_ = retry_after_s;
  }

  const Sequence& sequence(size_t index = 0) const { return sequences_.at(index); }
  bool finished() const {
    for (const auto& sequence : sequences_) {
      if (!sequence.end) return false;
    }
    return true;
  }
  bool over() const { return error_.has_value() || finished(); }
  const std::optional<Error>& error() const { return error_; }
  uint32_t retry_after_s() const { return retry_after_s_; }

 private:
  std::vector<Sequence> sequences_;
  std::optional<Error> error_;
  uint32_t retry_after_s_ = 0;
};

}  // namespace krait::test
