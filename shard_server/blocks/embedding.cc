// h = embedding[ids]. The table stays where the file is mapped: a step touches a few rows of it, its pages are shared
// by all ranks of a host, and no rank pays memory for it.
#include <algorithm>

#include "common/weights/checkpoint.h"
#include "kernels/pointwise/rows.h"
#include "shard_server/blocks/block.h"

namespace krait::shard {
namespace {

class EmbeddingBlock final : public Block {
 public:
  EmbeddingBlock(const TensorView& table, int64_t hidden_size) : table_(table), hidden_size_(hidden_size) {}

  BlockNeeds needs(int64_t) const override { return {}; }

  Status forward(const BlockContext& context, const Batch& batch) const override {
    kernels::EmbedRowsArgs args;
    args.ids = batch.ids;
    args.table = table_.data;
    args.dtype = table_.dtype;
    args.entries = table_.shape.at(0);
    args.width = hidden_size_;
    args.out = context.h;
    args.out_stride = hidden_size_;
    kernels::embed_rows(context.stream, args);
    if (context.first != nullptr) std::copy_n(context.h, batch.rows() * hidden_size_, context.first);
    return {};
  }

 private:
  TensorView table_;
  int64_t hidden_size_;
};

}  // namespace

Result<std::unique_ptr<Block>> make_embedding_block(const BlockSource& source) {
  const TensorSpec& spec = tensor_of(source.plan, "embedding.weight");
  const TensorView* table = source.checkpoint.find(spec.stored_name());
  if (table == nullptr) return Error{Errc::kCorrupt, fmt::format("tensor {} is missing", spec.name), spec.name};
  return std::unique_ptr<Block>(std::make_unique<EmbeddingBlock>(*table, source.config.hidden_size));
}

}  // namespace krait::shard
