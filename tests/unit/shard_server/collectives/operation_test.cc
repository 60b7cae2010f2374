// The arithmetic below the communicators: how operations are cut, how stripes divide, the order of sums.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/units.h"
#include "shard_server/collectives/codec.h"
#include "shard_server/collectives/operation.h"
#include "shard_server/collectives/sum.h"

namespace krait::collectives {
namespace {

Operation operation_of(int64_t rows, std::vector<int64_t> row_bytes) {
  Operation operation;
  operation.rows = rows;
  std::copy(row_bytes.begin(), row_bytes.end(), operation.row_bytes.begin());
  return operation;
}

TEST(Operation, ChunksAreWholeRowsWhereARowFits) {
  Operation operation = operation_of(10, {100, 100});
  operation.cut(2, 256);
  EXPECT_EQ(operation.chunk_bytes, 200);
  EXPECT_EQ(operation.chunks, 5u);
  operation.cut(2, 64);
  EXPECT_EQ(operation.chunk_bytes, 64);
  EXPECT_EQ(operation.chunks, 16u);
}

TEST(Operation, ChunksCoverEveryPartOnceWithNothingPastItsEnd) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{0, 0}, {7, 0, 1}, {64, 64, 64, 64}, {1000, 3, 999}}) {
    for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{13}}) {
      Operation operation = operation_of(rows, sizes);
      const int world = static_cast<int>(sizes.size());
      operation.cut(world, 128);
      EXPECT_GE(operation.chunks, 1u);
      for (int rank = 0; rank < world; ++rank) {
        int64_t covered = 0;
        for (uint32_t chunk = 0; chunk < operation.chunks; ++chunk) {
          const Range range = operation.part_range(rank, chunk);
          EXPECT_LE(range.bytes, 128);
          EXPECT_TRUE(range.bytes == 0 || range.begin_bytes == covered);
          covered += range.bytes;
        }
        EXPECT_EQ(covered, rows * sizes[static_cast<size_t>(rank)]);
      }
    }
  }
}

TEST(Operation, StripesCoverAChunk) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{16}, int64_t{17}, int64_t{1000}, int64_t{65'536}}) {
    for (int world = 1; world <= 8; ++world) {
      int64_t covered = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Stripe stripe = stripe_of(rank, world, count);
        EXPECT_EQ(stripe.begin, covered);
        covered += stripe.count;
      }
      EXPECT_EQ(covered, count);
    }
  }
}

Operation sum_of(Codec codec, int64_t rows, int64_t width, int64_t exact_lanes) {
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.sum = WireRows::make(codec_entry(codec), rows, width, exact_lanes);
  operation.rows = operation.sum.rows;
  operation.row_bytes.fill(operation.sum.row_bytes());
  return operation;
}

// Chunks of a sum are whole rows, or whole blocks of one row, and lie one behind the other.
TEST(Operation, SumsAreCutWhereTheirBlocksAre) {
  for (const CodecEntry& codec : all_codecs()) {
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{0, 300}, {3, 0}, {1, 1}, {5, 130}, {3, 3000}}) {
      for (const int64_t lanes : {int64_t{0}, std::min(width, limits::kMaxExactLanes)}) {
        for (const int64_t stage : {int64_t{512}, int64_t{1024}, int64_t{100'000}}) {
          Operation operation = sum_of(codec.codec, rows, width, lanes);
          operation.cut(2, stage);
          int64_t bytes = 0, blocks = 0;
          for (uint32_t c = 0; c < operation.chunks; ++c) {
            const Range range = operation.part_range(1, c);
            const WireChunk chunk = operation.sum_chunk(c);
            EXPECT_LE(range.bytes, stage);
            EXPECT_EQ(range.begin_bytes, bytes);
            if (chunk.blocks() > 0) {
              EXPECT_EQ(chunk.row * operation.sum.row_bytes() + chunk.block * operation.sum.block_bytes(), bytes);
            }
            bytes += range.bytes;
            blocks += chunk.blocks();
          }
          EXPECT_EQ(bytes, operation.part_bytes(0)) << codec.name << " " << rows << " x " << width << " in " << stage;
          EXPECT_EQ(blocks, operation.rows * operation.sum.row_blocks());
        }
      }
    }
  }
}

TEST(Codecs, NamesAndNumbersAgree) {
  for (const CodecEntry& codec : all_codecs()) {
    EXPECT_EQ(&codec_entry(codec.codec), &codec);
    const auto found = find_codec(codec.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, codec.codec);
  }
  const auto none = find_codec("int3");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("int8-rotated"), std::string::npos) << none.error().message;
}

// What each codec saves: bytes of a row of 2560 against those of floats.
TEST(Codecs, RowsAreAsShortAsTheTableOfTheirBitsSays) {
  const std::vector<std::pair<Codec, int64_t>> expected = {
      {Codec::kFloat32, 2560 * 4},          {Codec::kBf16, 2560 * 2},      {Codec::kInt8, 2560 + 20 * 2},
      {Codec::kInt8Rotated, 2560 + 20 * 2}, {Codec::kInt4, 1280 + 80 * 2}, {Codec::kInt4Rotated, 1280 + 80 * 2}};
  for (const auto& [codec, bytes] : expected) {
    EXPECT_EQ(WireRows::make(codec_entry(codec), 1, 2560, 0).row_bytes(), bytes);
    EXPECT_EQ(WireRows::make(codec_entry(codec), 1, 2561, 1).row_bytes(), bytes + 4);
  }
}

TEST(Operation, SizesInAnotherOrderHashToSomethingElse) {
  EXPECT_NE(hash_sizes(std::vector<int64_t>{1, 2}), hash_sizes(std::vector<int64_t>{2, 1}));
  EXPECT_NE(hash_sizes(std::vector<int64_t>{1, 2}), hash_sizes(std::vector<int64_t>{1, 2, 0}));
}

// 1 + ulp / 2 rounds to 1; two such halves added first make a whole ulp: the order shows.
TEST(Sum, TreeAndRankOrderAreWhatTheySay) {
  const float half_ulp = std::ldexp(1.0f, -24);
  const std::vector<float> one(40, 1.0f), half(40, half_ulp);
  const std::vector<const float*> parts = {one.data(), half.data(), half.data(), half.data()};
  std::vector<float> out(40);
  sum_parts(ReduceOrder::kRankOrder, parts, 40, out.data());
  for (const float value : out)
    EXPECT_EQ(value, 1.0f);  // every half is lost
  sum_parts(ReduceOrder::kTree, parts, 40, out.data());
  for (const float value : out)
    EXPECT_EQ(value, 1.0f + 2 * half_ulp);  // (1 + h) + (h + h)
}

TEST(Sum, EveryNumberOfPartsInRankOrder) {
  for (size_t count = 1; count <= 8; ++count) {
    std::vector<std::vector<float>> data;
    std::vector<const float*> parts;
    for (size_t p = 0; p < count; ++p)
      data.emplace_back(33, std::ldexp(1.1f, static_cast<int>(p * 5 % 24)));
    for (const auto& part : data)
      parts.push_back(part.data());
    float expected = data[0][0];
    for (size_t p = 1; p < count; ++p)
      expected += data[p][0];
    std::vector<float> out(33);
    sum_parts(ReduceOrder::kRankOrder, parts, 33, out.data());
    for (const float value : out)
      EXPECT_EQ(value, expected) << count;
  }
}

}  // namespace
}  // namespace krait::collectives
