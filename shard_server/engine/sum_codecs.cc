#include "shard_server/engine/sum_codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"

namespace krait::shard {

using collectives::Codec;

SumCodecs::SumCodecs(const ModelPlan& plan, const std::vector<Codec>& by_sum) {
  const std::vector<HiddenSum> sums = hidden_sums(plan);
  CHECK_EQ(sums.size(), by_sum.size());
  by_block_.assign(plan.blocks.size(), Codec::kFloat32);
  for (size_t i = 0; i < sums.size(); ++i) {
    by_block_[sums[i].block] = by_sum[i];
    blocks_.push_back(sums[i].block);
  }
}

SumCodecs::SumCodecs(std::vector<collectives::SizeCodec> rows) : by_size_(std::move(rows)) {
  CHECK(!by_size_.empty());
}

Codec SumCodecs::of(size_t block, int64_t bytes) const {
  if (!by_size_.empty()) return collectives::codec_of_size(by_size_, bytes);
  return by_block_.empty() ? rest_ : by_block_[block];
}

std::string SumCodecs::name() const {
  if (!by_size_.empty()) return "fast";
  if (blocks_.empty()) return std::string(collectives::codec_entry(rest_).name);
  const Codec first = by_block_[blocks_.front()];
  if (std::all_of(blocks_.begin(), blocks_.end(), [&](size_t block) { return by_block_[block] == first; }))
    return std::string(collectives::codec_entry(first).name);
  Digest digest;
  for (const size_t block : blocks_) {
    // By name: rows of codecs.def may move.
    const std::string line = fmt::format("{}\n", collectives::codec_entry(by_block_[block]).name);
    digest.update(std::as_bytes(std::span(line)));
  }
  return fmt::format("plan-{:08x}", static_cast<uint32_t>(digest.value()));
}

}  // namespace krait::shard
