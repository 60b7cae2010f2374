// How well a model foretells a text, token by token, and how near one type of weights comes to another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/model/model_config.h"
#include "deploy/tools/local_group.h"

namespace krait::tools {

/// A text as sequences that are scored for themselves: the first token of each begins it, the others are foretold. The
/// text's documents end at the model's end-of-text tokens; one is a sequence after the model's token for the beginning
/// of a text, or else for its end. A document of more than `context` tokens (0: any number) is several of them.
/// kInvalidArgument: nothing is left to be foretold.
Result<std::vector<std::vector<int32_t>>> sequences_of(std::span<const int32_t> text, const ModelConfig& config,
                                                       int64_t context);

struct Score final {
  int64_t tokens = 0;  // that were foretold
  double nll = 0;      // sum of -log of their probabilities
  double seconds = 0;  // of steps
  double perplexity() const;
};

/// Of one model in two types of weights on the same tokens.
struct Comparison final {
  Score against;          // of the other one
  int64_t agreed = 0;     // tokens for which both find the same one most likely
  double divergence = 0;  // sum over tokens of Kullback and Leibler's, of the first from the other
};

/// Feeds sequences to one group, a chunk at a time. The group serves nothing else and has one slot.
class Foreteller final {
 public:
  explicit Foreteller(LocalGroup& group, const Clock& clock) : group_(group), clock_(clock) {}

  /// Keeps the logits of each chunk from now on.
  void keep_logits();
  /// Tokens [begin, end] of the sequence, of which the last one is only foretold; begin 0 starts a sequence. kInternal
  /// where the model gives no numbers; kResourceExhausted where its keys and values have no room.
  Status chunk(std::span<const int32_t> sequence, int64_t begin, int64_t end);

  const Score& score() const { return score_; }
  int64_t most_rows() const { return group_.ready().max_rows; }
  /// Those after the chunk's row-th token.
  std::span<const float> logits(int64_t row) const;

 private:
  Status admit(std::span<const int32_t> sequence, wire::Step& step) const;

  LocalGroup& group_;
  const Clock& clock_;
  uint64_t next_step_ = 1;
  Score score_;
  std::vector<float> logits_;  // [rows][vocabulary], when kept
};

/// All sequences through `model`, and through `other` beside it where there is one: then the result has a comparison.
struct Measured final {
  Score score;
  std::optional<Comparison> comparison;
};
Result<Measured> foretell(std::span<const std::vector<int32_t>> sequences, Foreteller& model, Foreteller* other);

}  // namespace krait::tools
