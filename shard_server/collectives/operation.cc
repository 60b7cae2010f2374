#include "shard_server/collectives/operation.h"

#include "common/base/units.h"

namespace krait::collectives {

void Operation::cut(int world, int64_t stage_bytes) {
  int64_t row = 1;
  int64_t part = 0;
  for (int rank = 0; rank < world; ++rank) {
    row = std::max(row, row_bytes[static_cast<size_t>(rank)]);
    part = std::max(part, part_bytes(rank));
  }
  chunk_bytes = row <= stage_bytes ? stage_bytes / row * row : stage_bytes;
  chunks = static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(part, chunk_bytes)));
}

Stripe stripe_of(int rank, int world, int64_t count) {
  // Whole cache lines, so that no two ranks write into one.
  constexpr int64_t kFloatsPerLine = 16;
  const int64_t share = round_up(ceil_div(count, world), kFloatsPerLine);
  const int64_t begin = std::min(count, share * rank);
  return {begin, std::min(count - begin, share)};
}

uint64_t hash_sizes(std::span<const int64_t> sizes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const int64_t size : sizes) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((static_cast<uint64_t>(size) >> shift) & 0xFF)) * 0x100000001B3;
    }
  }
  return hash;
}

std::string describe(const StepNote& note) {
  return fmt::format("{} {} of {} rows x {} bytes (chunk {}, detail {}, sizes {:x})", op_name(note.kind), note.sequence,
                     note.rows, note.row_bytes, note.chunk, note.detail, note.shape_hash);
}

}  // namespace krait::collectives
