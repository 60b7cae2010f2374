#include "shard_server/blocks/lm_head.h"

#include "common/base/limits.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"
#include "shard_server/blocks/block_math.h"

namespace krait::shard {

Result<std::unique_ptr<LmHead>> LmHead::make(const BlockSource& source) {
  std::unique_ptr<LmHead> head(new LmHead);
  head->hidden_ = source.config.hidden_size;
  head->vocab_size_ = source.config.vocab_size;
  head->norm_eps_ = source.config.norm_eps;
  head->vocabulary_ = source.loader.range(Unit::kVocab);
  for (const Range& range : source.loader.partition().of(Unit::kVocab)) {
    head->row_bytes_.push_back(range.size() * static_cast<int64_t>(sizeof(float)));
  }
  ASSIGN_OR_RETURN(const auto norm, source.loader.norm(tensor_of(source.plan, "norm.weight"), head->hidden_, 1));
  head->norm_ = norm.weight;
  ASSIGN_OR_RETURN(head->weights_,
                   source.loader.matrix(tensor_of(source.plan, "lm_head.weight"), 1, {.factors = norm.factors}));
  return head;
}

void LmHead::logits(const BlockContext& context, std::span<const int32_t> rows, float* normed, float* local) const {
  const auto count = static_cast<int64_t>(rows.size());
  CHECK_LE(count, limits::kLogitRowsPerPass);
  kernels::gather_rows(context.stream, context.h, hidden_, rows, hidden_, normed, hidden_);
  kernels::rms_norm(context.stream, {.rows = count,
                                     .width = hidden_,
                                     .x = normed,
                                     .x_stride = hidden_,
                                     .weight = norm_,
                                     .eps = norm_eps_,
                                     .out = normed,
                                     .out_stride = hidden_});
  product(context, Rows{normed, hidden_}, count, weights_, {local, vocabulary_.size()});
}

Status LmHead::gather(const BlockContext& context, int64_t rows, const float* local, float* full) const {
  ASSIGN_OR_RETURN(const auto ticket, context.communicator.begin_all_gather_rows(rows, row_bytes_, local, full));
  return context.communicator.finish(ticket);
}

BlockNeeds LmHead::needs() const {
  BlockNeeds needs;
  needs.gemm_workspace_bytes = kernels::gemm_workspace_bytes(limits::kLogitRowsPerPass, weights_.k, weights_.dtype);
  return needs;
}

}  // namespace krait::shard
