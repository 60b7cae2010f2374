#include "shard_server/blocks/block.h"

namespace krait::shard {

Status Block::complete(const BlockContext&, const Batch&) const {
  return {};
}

void Block::export_state(const SlotState&, WholeState&) const {}

#define BLOCK(kind, maker) Result<std::unique_ptr<Block>> maker(const BlockSource& source);
#include "shard_server/blocks/blocks.def"
#undef BLOCK

Result<std::unique_ptr<Block>> make_block(const BlockSource& source) {
#define BLOCK(kind_name, maker) \
  if (source.plan.kind == BlockKind::kind_name) return maker(source);
#include "shard_server/blocks/blocks.def"
#undef BLOCK
  return Error{Errc::kUnsupported, fmt::format("no block runs '{}'", block_kind_name(source.plan.kind)), ""};
}

}  // namespace krait::shard
