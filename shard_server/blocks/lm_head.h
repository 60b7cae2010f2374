// From the residual stream to logits: final norm and lm_head, on chosen rows, each rank its range of the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shard_server/blocks/block.h"

namespace krait::shard {

class LmHead final {
 public:
  static Result<std::unique_ptr<LmHead>> make(const BlockSource& source);

  /// For at most limits::kLogitRowsPerPass rows of the batch: `normed` [rows][H] gets their normed hidden rows, `local`
  /// [rows][local_vocabulary()] this rank's logits. Sums over k = H run in plain order, so bits do not depend on P.
  void logits(const BlockContext& context, std::span<const int32_t> rows, float* normed, float* local) const;

  /// All ranks' logits of those rows, side by side: `full` [rows][V].
  Status gather(const BlockContext& context, int64_t rows, const float* local, float* full) const;

  Range vocabulary() const { return vocabulary_; }
  int64_t vocab_size() const { return vocab_size_; }
  int64_t hidden_size() const { return hidden_; }
  BlockNeeds needs() const;

 private:
  LmHead() = default;

  int64_t hidden_ = 0;
  int64_t vocab_size_ = 0;
  float norm_eps_ = 0;
  Range vocabulary_;
  std::vector<int64_t> row_bytes_;  // of each rank's part of a row of logits
  float* norm_ = nullptr;           // [H]
  kernels::PackedMatrix weights_;   // [local vocabulary][H]
};

}  // namespace krait::shard
