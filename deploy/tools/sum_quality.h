// What codecs of hidden sums do to a model, one sum at a time and by a whole plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "deploy/tools/codec_choice.h"
#include "deploy/tools/local_group.h"
#include "deploy/tools/perplexity.h"
#include "shard_server/blocks/hidden_sums.h"
#include "shard_server/collectives/codec.h"

namespace krait::tools {

/// Of one sum in one codec while all others are exact.
struct CodecDamage final {
  double error = 0;              // what it changes after the sum, root mean square, by the residual's
  double perplexity_change = 0;  // relative: 0.001 is 0.1 % more
  friend bool operator==(const CodecDamage&, const CodecDamage&) = default;
};

/// Runs one text again and again through a group whose codecs it changes. The group has two ranks or more, serves
/// nothing else, and has one slot.
class SumQuality final {
 public:
  /// Runs the text with exact sums. Errors are foretell()'s.
  static Result<std::unique_ptr<SumQuality>> start(LocalGroup& group, std::span<const std::vector<int32_t>> sequences,
                                                   const Clock& clock);

  const std::vector<shard::HiddenSum>& sums() const { return sums_; }
  const Score& exact() const { return exact_; }

  /// Of one sum, by codec; the first one is all zeros.
  Result<std::vector<CodecDamage>> measure(size_t sum);
  /// The relative change of perplexity with these codecs, by sum.
  Result<double> perplexity_change(const std::vector<collectives::Codec>& codecs);

 private:
  /// What a block has left for the first rows of the text: residual stream and side rows.
  using Rows = std::vector<float>;

  SumQuality(LocalGroup& group, std::span<const std::vector<int32_t>> sequences, const Clock& clock)
      : group_(group), sequences_(sequences), clock_(clock) {}
  Result<Score> run(const std::vector<collectives::Codec>& codecs);
  void keep(size_t block, std::span<const float> h, std::span<const float> side);
  double error_after(size_t block) const;

  LocalGroup& group_;
  const std::span<const std::vector<int32_t>> sequences_;
  const Clock& clock_;
  std::vector<shard::HiddenSum> sums_;
  Score exact_;
  std::vector<Rows> exact_rows_;          // by block
  std::vector<double> residual_squares_;  // by block, of those rows of the residual stream
  std::vector<Rows> rows_;                // of the latest run, by block
};

/// Damages as costs: bytes of a row of `hidden` elements, and the change of perplexity, up or down, as damage: what a
/// codec improves on one text is luck.
std::vector<SumCosts> costs_of(std::span<const std::vector<CodecDamage>> damages, int64_t hidden);

}  // namespace krait::tools
