#include "deploy/tools/sum_quality.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "shard_server/collectives/wire_rows.h"

namespace krait::tools {

using collectives::Codec;

namespace {

constexpr int64_t kErrorRows = 256;  // of the text, kept after every block

}  // namespace

Result<std::unique_ptr<SumQuality>> SumQuality::start(LocalGroup& group,
                                                      std::span<const std::vector<int32_t>> sequences,
                                                      const Clock& clock) {
  std::unique_ptr<SumQuality> quality(new SumQuality(group, sequences, clock));
  quality->sums_ = shard::hidden_sums(group.checkpoint().plan());
  quality->rows_.resize(group.checkpoint().plan().blocks.size());
  quality->residual_squares_.resize(quality->rows_.size());
  ASSIGN_OR_RETURN(quality->exact_, quality->run(std::vector(quality->sums_.size(), Codec::kFloat32)));
  quality->exact_rows_ = quality->rows_;
  return quality;
}

void SumQuality::keep(size_t block, std::span<const float> h, std::span<const float> side) {
  const auto most = static_cast<size_t>(kErrorRows * group_.checkpoint().config().hidden_size) * (side.empty() ? 1 : 2);
  Rows& rows = rows_[block];
  const auto append = [&](std::span<const float> part) {
    const std::span<const float> kept = part.first(std::min(part.size(), most - std::min(most, rows.size())));
    rows.insert(rows.end(), kept.begin(), kept.end());
    return kept;
  };
  const std::span<const float> kept = append(h);
  append(side);
  if (exact_.tokens != 0) return;
  residual_squares_[block] = std::inner_product(kept.begin(), kept.end(), kept.begin(), residual_squares_[block]);
}

Result<Score> SumQuality::run(const std::vector<Codec>& codecs) {
  const shard::SumCodecs plan(group_.checkpoint().plan(), codecs);
  for (int rank = 0; rank < group_.ranks(); ++rank)
    group_.engine(rank).set_codecs(plan);
  for (Rows& rows : rows_)
    rows.clear();
  group_.engine(0).set_block_tap(
      [this](size_t block, std::span<const float> h, std::span<const float> side) { keep(block, h, side); });
  Foreteller model(group_, clock_);
  const auto measured = foretell(sequences_, model, nullptr);
  group_.engine(0).set_block_tap(nullptr);
  if (!measured.ok()) return measured.error();
  return measured->score;
}

double SumQuality::error_after(size_t block) const {
  CHECK_EQ(rows_[block].size(), exact_rows_[block].size());
  double squares = 0;
  for (size_t i = 0; i < rows_[block].size(); ++i) {
    const double difference = double{rows_[block][i]} - double{exact_rows_[block][i]};
    squares += difference * difference;
  }
  return residual_squares_[block] > 0 ? std::sqrt(squares / residual_squares_[block]) : 0;
}

Result<std::vector<CodecDamage>> SumQuality::measure(size_t sum) {
  std::vector<CodecDamage> damages;
  for (const collectives::CodecEntry& entry : collectives::all_codecs()) {
    CodecDamage& damage = damages.emplace_back();
    if (entry.codec == Codec::kFloat32) continue;
    std::vector<Codec> codecs(sums_.size(), Codec::kFloat32);
    codecs[sum] = entry.codec;
    ASSIGN_OR_RETURN(damage.perplexity_change, perplexity_change(codecs));
    damage.error = error_after(sums_[sum].block);
  }
  return damages;
}

Result<double> SumQuality::perplexity_change(const std::vector<Codec>& codecs) {
  ASSIGN_OR_RETURN(const Score score, run(codecs));
  return score.perplexity() / exact_.perplexity() - 1;
}

std::vector<SumCosts> costs_of(std::span<const std::vector<CodecDamage>> damages, int64_t hidden) {
  std::vector<SumCosts> costs;
  for (const auto& of_sum : damages) {
    SumCosts& sum = costs.emplace_back();
    for (const collectives::CodecEntry& entry : collectives::all_codecs()) {
      const auto shape = collectives::WireRows::make(entry, 1, hidden, 0);
      sum.push_back({static_cast<double>(shape.rows * shape.row_bytes()),
                     std::abs(of_sum[static_cast<size_t>(entry.codec)].perplexity_change)});
    }
  }
  return costs;
}

}  // namespace krait::tools
