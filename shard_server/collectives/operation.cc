#include "shard_server/collectives/operation.h"

#include "common/base/check.h"
#include "common/base/units.h"

namespace krait::collectives {

void Operation::cut(int world, int64_t stage_bytes) {
  int64_t row = 1;
  int64_t part = 0;
  for (int rank = 0; rank < world; ++rank) {
    row = std::max(row, row_bytes[static_cast<size_t>(rank)]);
    part = std::max(part, part_bytes(rank));
  }
  row_chunks = 1;
  if (row <= stage_bytes || part == 0 || !is_sum()) {
    chunk_bytes = row <= stage_bytes ? stage_bytes / row * row : stage_bytes;
    chunks = static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(part, chunk_bytes)));
    return;
  }
  // The row's last chunk takes the exact lanes as well.
  chunk_bytes = (stage_bytes - sum.lane_bytes()) / sum.block_bytes() * sum.block_bytes();
  CHECK_GT(chunk_bytes, 0);
  row_chunks = std::max<int64_t>(1, ceil_div(row - sum.lane_bytes(), chunk_bytes));
  chunks = static_cast<uint32_t>(std::max<int64_t>(1, rows * row_chunks));
}

Range Operation::part_range(int rank, uint32_t chunk) const {
  const int64_t part = part_bytes(rank);
  if (row_chunks == 1) {
    const int64_t begin = std::min(part, int64_t{chunk} * chunk_bytes);
    return {begin, std::min(part - begin, chunk_bytes)};
  }
  const int64_t row = row_bytes[static_cast<size_t>(rank)];
  const int64_t begin = std::min(part, chunk / row_chunks * row + chunk % row_chunks * chunk_bytes);
  const bool is_last = chunk % row_chunks == row_chunks - 1;
  return {begin, is_last ? row - (row_chunks - 1) * chunk_bytes : chunk_bytes};
}

WireChunk Operation::sum_chunk(uint32_t chunk) const {
  const int64_t row = std::max<int64_t>(1, row_bytes[0]);
  if (row_chunks == 1) {
    const Range range = part_range(0, chunk);
    return {&sum, range.begin_bytes / row, range.bytes / row, 0, sum.row_blocks()};
  }
  const int64_t most = chunk_bytes / sum.block_bytes();
  const int64_t block = chunk % row_chunks * most;
  return {&sum, chunk / row_chunks, 1, block, std::min(most, sum.row_blocks() - block)};
}

int64_t Operation::elements_through(uint32_t chunk) const {
  const WireChunk piece = sum_chunk(chunk);
  const int64_t blocks = piece.block + piece.row_blocks;
  if (blocks == sum.row_blocks()) return (piece.row + piece.rows) * sum.width;
  return piece.row * sum.width + blocks * sum.block_floats();
}

WireChunk Operation::scatter_chunk(int owner, int world, uint32_t chunk) const {
  const int64_t row = std::max<int64_t>(1, row_bytes[0]);
  const int64_t turns = row_chunks == 1 ? chunk_bytes / row : 1;
  const int64_t first = row_chunks == 1 ? chunk * turns : chunk / row_chunks;
  const int64_t count = stripe_of(owner, world, sum.rows).count;
  // Turn t is that of row t / world of rank t % world; turns of rows that are not there are passed over.
  const auto rows_before = [&](int64_t turn) {
    return std::min(count, ceil_div(std::max<int64_t>(0, turn - owner), int64_t{world}));
  };
  const int64_t begin = rows_before(first);
  const int64_t piece_rows = rows_before(first + turns) - begin;
  if (row_chunks == 1 || piece_rows == 0) return {&sum, begin, piece_rows, 0, sum.row_blocks()};
  const int64_t most = chunk_bytes / sum.block_bytes();
  const int64_t block = chunk % row_chunks * most;
  return {&sum, begin, 1, block, std::min(most, sum.row_blocks() - block)};
}

Range Operation::scatter_range(int owner, int world, uint32_t chunk) const {
  int64_t begin = 0;
  for (int rank = 0; rank < owner; ++rank)
    begin += scatter_chunk(rank, world, chunk).bytes();
  return {begin, scatter_chunk(owner, world, chunk).bytes()};
}

Range Operation::needed_range(Counter which, int from, int to, int world, uint32_t chunk) const {
  if (which == Counter::kConsumed) return {};
  if (kind == OpKind::kReduceScatter) return scatter_range(to, world, chunk);
  if (!two_shot) return {0, part_range(from, chunk).bytes};
  const WireChunk piece = sum_chunk(chunk);
  const Stripe stripe = stripe_of(which == Counter::kPosted ? to : from, world, piece.blocks());
  const int64_t begin = piece.offset(stripe.begin);
  return {begin, piece.offset(stripe.begin + stripe.count) - begin};
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
