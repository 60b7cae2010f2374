#include "shard_server/collectives/wire_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "shard_server/collectives/sum.h"

namespace krait::collectives {
namespace {

constexpr int64_t kFloatBytes = static_cast<int64_t>(sizeof(float));

// Floats that every rank's part is unpacked to at a time: all of them stay in the first-level cache.
constexpr int64_t kTileFloats = 4 * kernels::kCodecBlock;
constexpr int64_t kTileBytes = kTileFloats * 2;  // of the widest codec

// memcpy may not be given null pointers, not even for nothing; empty operations may.
void copy_floats(void* to, const void* from, int64_t floats) {
  if (floats > 0) std::memcpy(to, from, static_cast<size_t>(floats * kFloatBytes));
}

}  // namespace

WireRows WireRows::make(const CodecEntry& codec, int64_t rows, int64_t width, int64_t exact_lanes) {
  return {&codec, rows, width, codec.format.has_value() ? exact_lanes : 0};
}

int64_t WireRows::body_bytes(int64_t floats) const {
  return is_plain() ? floats * kFloatBytes : kernels::encoded_bytes(*codec->format, floats);
}

int64_t WireChunk::bytes() const {
  if (row_blocks == shape->row_blocks()) return rows * shape->row_bytes();
  const int64_t rest = shape->row_bytes() - block * shape->block_bytes();
  return block + row_blocks == shape->row_blocks() ? rest : row_blocks * shape->block_bytes();
}

int64_t WireChunk::offset(int64_t at) const {
  if (at == blocks()) return bytes();
  const int64_t whole = at / row_blocks;
  return whole * shape->row_bytes() + at % row_blocks * shape->block_bytes();
}

/// Blocks of one row.
struct ChunkSum::Piece final {
  int64_t element = 0;  // the first one, of the whole operation
  int64_t count = 0;    // of the body
  int64_t offset = 0;   // bytes from the chunk's beginning
  int64_t lanes = 0;    // exact ones, right behind
};

// `visit` takes pieces of at most kTileFloats elements, unless the floats are plain.
template <class Visit>
void ChunkSum::for_each_piece(const Stripe& stripe, const Visit& visit) const {
  const WireRows& shape = *chunk_.shape;
  const int64_t most = shape.is_plain() ? stripe.count : kTileFloats / shape.block_floats();
  for (int64_t at = stripe.begin; at < stripe.begin + stripe.count;) {
    const int64_t within = at % chunk_.row_blocks;
    const int64_t blocks = std::min({most, stripe.begin + stripe.count - at, chunk_.row_blocks - within});
    const int64_t first = chunk_.block + within;
    const int64_t begin = first * shape.block_floats();
    Piece piece;
    piece.element = (chunk_.row + at / chunk_.row_blocks) * shape.width + begin;
    piece.count = std::min(blocks * shape.block_floats(), shape.body() - begin);
    piece.offset = chunk_.offset(at);
    piece.lanes = first + blocks == shape.row_blocks() ? shape.exact_lanes : 0;
    visit(piece);
    at += blocks;
  }
}

void ChunkSum::pack(const float* in, std::byte* packed) const {
  const WireRows& shape = *chunk_.shape;
  for_each_piece({0, chunk_.blocks()}, [&](const Piece& piece) {
    const float* from = in + piece.element;
    std::byte* to = packed + piece.offset;
    if (shape.is_plain()) return copy_floats(to, from, piece.count);
    copy_floats(to + kernels::encoded_bytes(*shape.codec->format, piece.count), from + piece.count, piece.lanes);
    std::array<float, kTileFloats> tile;
    if (shape.codec->rotated) {
      copy_floats(tile.data(), from, piece.count);
      kernels::rotate_row(path_, tile.data(), piece.count);
      from = tile.data();
    }
    kernels::encode_row(path_, *shape.codec->format, from, piece.count, to);
  });
}

void ChunkSum::sum_tile(std::span<const std::byte* const> parts, int64_t offset, int64_t count, float* tile) const {
  std::array<std::array<float, kTileFloats>, limits::kMaxWorld> values;
  std::array<const float*, limits::kMaxWorld> unpacked;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    kernels::decode_row(path_, *chunk_.shape->codec->format, parts[rank] + offset, count, values[rank].data());
    unpacked[rank] = values[rank].data();
  }
  sum_parts(order_, std::span(unpacked).first(parts.size()), count, tile);
}

void ChunkSum::add_lanes(std::span<const std::byte* const> parts, int64_t offset, float* sums) const {
  std::array<std::array<float, limits::kMaxExactLanes>, limits::kMaxWorld> values;
  std::array<const float*, limits::kMaxWorld> lanes;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    // Packed bytes before them leave them unaligned.
    copy_floats(values[rank].data(), parts[rank] + offset, chunk_.shape->exact_lanes);
    lanes[rank] = values[rank].data();
  }
  sum_parts(order_, std::span(lanes).first(parts.size()), chunk_.shape->exact_lanes, sums);
}

void ChunkSum::add(std::span<const std::byte* const> parts, float* out) const {
  const WireRows& shape = *chunk_.shape;
  const bool rounds_again = parts.size() > 2;
  for_each_piece({0, chunk_.blocks()}, [&](const Piece& piece) {
    float* to = out + piece.element;
    if (shape.is_plain()) {
      std::array<const float*, limits::kMaxWorld> floats;
      for (size_t rank = 0; rank < parts.size(); ++rank)
        floats[rank] = reinterpret_cast<const float*>(parts[rank] + piece.offset);
      return sum_parts(order_, std::span(floats).first(parts.size()), piece.count, to);
    }
    const kernels::RowFormat format = *shape.codec->format;
    sum_tile(parts, piece.offset, piece.count, to);
    if (rounds_again) {
      std::array<std::byte, kTileBytes> packed;
      kernels::encode_row(path_, format, to, piece.count, packed.data());
      kernels::decode_row(path_, format, packed.data(), piece.count, to);
    }
    if (shape.codec->rotated) kernels::rotate_row_back(path_, to, piece.count);
    if (piece.lanes > 0) add_lanes(parts, piece.offset + kernels::encoded_bytes(format, piece.count), to + piece.count);
  });
}

void ChunkSum::add_stripe(std::span<const std::byte* const> parts, const Stripe& stripe, std::byte* packed) const {
  const WireRows& shape = *chunk_.shape;
  for_each_piece(stripe, [&](const Piece& piece) {
    std::byte* to = packed + piece.offset;
    std::array<float, kTileFloats> tile;
    if (shape.is_plain()) {
      for (int64_t begin = 0; begin < piece.count; begin += kTileFloats) {
        const int64_t count = std::min(kTileFloats, piece.count - begin);
        std::array<const float*, limits::kMaxWorld> floats;
        for (size_t rank = 0; rank < parts.size(); ++rank)
          floats[rank] = reinterpret_cast<const float*>(parts[rank] + piece.offset) + begin;
        sum_parts(order_, std::span(floats).first(parts.size()), count, tile.data());
        copy_floats(to + begin * kFloatBytes, tile.data(), count);
      }
      return;
    }
    sum_tile(parts, piece.offset, piece.count, tile.data());
    kernels::encode_row(path_, *shape.codec->format, tile.data(), piece.count, to);
    if (piece.lanes == 0) return;
    const int64_t lanes_at = kernels::encoded_bytes(*shape.codec->format, piece.count);
    add_lanes(parts, piece.offset + lanes_at, tile.data());
    copy_floats(to + lanes_at, tile.data(), piece.lanes);
  });
}

void ChunkSum::unpack_stripe(const std::byte* packed, const Stripe& stripe, float* out) const {
  const WireRows& shape = *chunk_.shape;
  for_each_piece(stripe, [&](const Piece& piece) {
    const std::byte* from = packed + piece.offset;
    float* to = out + piece.element;
    if (shape.is_plain()) return copy_floats(to, from, piece.count);
    kernels::decode_row(path_, *shape.codec->format, from, piece.count, to);
    if (shape.codec->rotated) kernels::rotate_row_back(path_, to, piece.count);
    copy_floats(to + piece.count, from + kernels::encoded_bytes(*shape.codec->format, piece.count), piece.lanes);
  });
}

}  // namespace krait::collectives
