// h = embedding[ids]. The table stays in its file: a step reads a few rows of it, which the page cache holds once for
// all ranks of a host, and no rank pays memory for it.
#include <algorithm>
#include <mutex>

#include "common/weights/checkpoint.h"
#include "kernels/pointwise/rows.h"
#include "shard_server/blocks/block.h"

namespace krait::shard {
namespace {

class EmbeddingBlock final : public Block {
 public:
  EmbeddingBlock(CheckpointTensor table, int64_t hidden_size)
      : table_(std::move(table)),
        hidden_size_(hidden_size),
        row_bytes_(stored_bytes(table_.tensor->dtype, hidden_size)) {}

  BlockNeeds needs(int64_t max_rows) const override { return {.scratch_bytes = max_rows * row_bytes_}; }

  Status start(const BlockContext& context, const Batch& batch) const override {
    CHECK_LE(batch.rows() * row_bytes_, static_cast<int64_t>(context.scratch.size()));
    std::byte* const rows = context.scratch.data();
    RETURN_IF_ERROR(read_rows(context.stream, batch.ids, rows));
    kernels::widen_rows(context.stream, rows, table_.tensor->dtype, batch.rows(), hidden_size_, context.h,
                        hidden_size_);
    if (context.first != nullptr) std::copy_n(context.h, batch.rows() * hidden_size_, context.first);
    return {};
  }

 private:
  /// The rows of `ids` as they lie in the file. It may be written to at any time, so each step asks whether it was.
  Status read_rows(kernels::Stream& stream, std::span<const int32_t> ids, std::byte* out) const {
    std::mutex mutex;
    Status failed;
    stream.parallel_for(static_cast<int64_t>(ids.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = ids[static_cast<size_t>(i)] * row_bytes_;
        Status read =
            table_.source->read(*table_.tensor, first, {out + i * row_bytes_, static_cast<size_t>(row_bytes_)});
        if (read.ok()) continue;
        const std::scoped_lock lock(mutex);
        failed = std::move(read);
        return;
      }
    });
    RETURN_IF_ERROR(failed);
    return table_.source->check_unchanged();
  }

  CheckpointTensor table_;
  int64_t hidden_size_;
  int64_t row_bytes_;
};

}  // namespace

Result<std::unique_ptr<Block>> make_embedding_block(const BlockSource& source) {
  const TensorSpec& spec = tensor_of(source.plan, "embedding.weight");
  const CheckpointTensor* table = source.checkpoint.find(spec.stored_name());
  if (table == nullptr) return Error{Errc::kCorrupt, fmt::format("tensor {} is missing", spec.name), spec.name};
  return std::unique_ptr<Block>(std::make_unique<EmbeddingBlock>(*table, source.config.hidden_size));
}

}  // namespace krait::shard
