// The arithmetic below the communicators: how operations are cut, how stripes divide, the order of sums.
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/units.h"
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

TEST(Operation, StripesCoverAChunkInLinesOfTheirOwn) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{16}, int64_t{17}, int64_t{1000}, int64_t{65'536}}) {
    for (int world = 1; world <= 8; ++world) {
      int64_t covered = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Stripe stripe = stripe_of(rank, world, count);
        EXPECT_EQ(stripe.begin, covered);
        EXPECT_TRUE(stripe.count == 0 || stripe.begin % 16 == 0);
        covered += stripe.count;
      }
      EXPECT_EQ(covered, count);
    }
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
