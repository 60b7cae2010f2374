#include "shard_server/blocks/hidden_sums.h"

namespace krait::shard {
namespace {

/// Empty where a block of that kind has none.
std::string_view operation_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::kMamba:
    case BlockKind::kMamba2:
      return "out_proj";
    case BlockKind::kSharedAttention:
      return "o_proj";
    case BlockKind::kSharedMlp:
      return "down_proj";
    case BlockKind::kEmbedding:
    case BlockKind::kLmHead:
      return {};
  }
  return {};
}

}  // namespace

std::vector<HiddenSum> hidden_sums(const ModelPlan& plan) {
  std::vector<HiddenSum> sums;
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    const std::string_view operation = operation_of(plan.blocks[block].kind);
    if (!operation.empty()) sums.push_back({plan.blocks[block].layer, operation, block});
  }
  return sums;
}

}  // namespace krait::shard
