// The codec of each hidden sum of a model: chosen when the group forms, part of what its bits depend on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shard_server/blocks/hidden_sums.h"
#include "shard_server/collectives/codec.h"
#include "shard_server/collectives/sum_table.h"

namespace krait::shard {

class SumCodecs final {
 public:
  SumCodecs() = default;  // floats, all of them
  /// All sums alike.
  explicit SumCodecs(collectives::Codec codec) : rest_(codec) {}
  /// One for each of hidden_sums(plan), in that order.
  SumCodecs(const ModelPlan& plan, const std::vector<collectives::Codec>& by_sum);
  /// By the size of each sum: a token's bits then depend on its company. `rows` as check_size_codecs() wants them.
  explicit SumCodecs(std::vector<collectives::SizeCodec> rows);

  /// Of the hidden sum of a block (index in ModelPlan::blocks), in a step whose sum is `bytes` of floats.
  collectives::Codec of(size_t block, int64_t bytes) const;
  bool keeps_the_contract() const { return by_size_.empty(); }
  /// "exact", a codec's name, "plan-" and a digest where sums differ, or "fast".
  std::string name() const;

 private:
  collectives::Codec rest_ = collectives::Codec::kFloat32;
  std::vector<collectives::Codec> by_block_;  // empty: all are `rest_`
  std::vector<size_t> blocks_;                // those with a hidden sum, where by_block_ is not empty
  std::vector<collectives::SizeCodec> by_size_;
};

}  // namespace krait::shard
