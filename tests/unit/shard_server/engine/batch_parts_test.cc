// Where a batch is cut, and what its pieces say.
#include "shard_server/engine/batch_parts.h"

#include <gtest/gtest.h>

#include <numeric>

namespace krait::shard {
namespace {

struct Flat final {
  std::vector<int32_t> ids;
  std::vector<kernels::Run> runs;
  std::vector<kernels::Tap> taps;
  std::vector<kernels::AttentionRun> attention;
  Batch batch() const { return {ids, runs, taps, attention}; }
};

Flat flat(std::vector<kernels::Run> runs) {
  Flat out;
  out.runs = std::move(runs);
  int32_t rows = 0;
  for (auto& run : out.runs) {
    run.row_begin = rows;
    rows += run.rows;
    out.attention.push_back({run.row_begin, run.rows, 100, {}});
  }
  out.ids.resize(static_cast<size_t>(rows));
  std::iota(out.ids.begin(), out.ids.end(), 0);
  return out;
}

using Piece = std::array<int32_t, 4>;  // row_begin, rows, in_slot, out_slot

std::vector<Piece> pieces(const BatchPart& part) {
  std::vector<Piece> out;
  for (const auto& run : part.batch.runs)
    out.push_back({run.row_begin, run.rows, run.in_slot, run.out_slot});
  return out;
}

TEST(BatchParts, ARunAcrossTheMiddleGoesOnFromWhereItsFirstPieceWrote) {
  const Flat whole = flat({{0, 1, 5, 5}, {0, 10, 2, 7}, {0, 1, 6, 6}});
  BatchParts parts;
  parts.halve(whole.batch());
  ASSERT_EQ(parts.all().size(), 2u);
  EXPECT_EQ(pieces(parts.all()[0]), (std::vector<Piece>{{0, 1, 5, 5}, {1, 5, 2, 7}}));
  EXPECT_EQ(pieces(parts.all()[1]), (std::vector<Piece>{{0, 5, 7, 7}, {5, 1, 6, 6}}));
  EXPECT_EQ(parts.all()[1].first_row, 6);
  EXPECT_EQ(parts.all()[1].batch.ids[0], 6);
  const auto& attention = parts.all()[1].batch.attention;
  ASSERT_EQ(attention.size(), 2u);
  EXPECT_EQ(attention[0].position, 105);
  EXPECT_EQ(attention[0].rows, 5);
  EXPECT_EQ(attention[1].row_begin, 5);
  EXPECT_EQ(attention[1].position, 100);
}

TEST(BatchParts, ATapGoesWithItsRow) {
  Flat whole = flat({{0, 8, -1, 0}});
  whole.taps = {{1, 3}, {3, 4}, {4, 5}};
  BatchParts parts;
  parts.halve(whole.batch());
  ASSERT_EQ(parts.all().size(), 2u);
  ASSERT_EQ(parts.all()[0].batch.taps.size(), 2u);
  EXPECT_EQ(parts.all()[0].batch.taps[1].row, 3);
  ASSERT_EQ(parts.all()[1].batch.taps.size(), 1u);
  EXPECT_EQ(parts.all()[1].batch.taps[0].row, 0);
  EXPECT_EQ(parts.all()[1].batch.taps[0].slot, 5);
}

TEST(BatchParts, ARunThatWritesNowhereIsNotCut) {
  BatchParts parts;
  const Flat first = flat({{0, 6, 1, -1}, {0, 2, 2, 2}});
  parts.halve(first.batch());
  ASSERT_EQ(parts.all().size(), 2u);
  EXPECT_EQ(pieces(parts.all()[0]), (std::vector<Piece>{{0, 6, 1, -1}}));
  const Flat last = flat({{0, 2, 2, 2}, {0, 6, 1, -1}});
  parts.halve(last.batch());
  ASSERT_EQ(parts.all().size(), 2u);
  EXPECT_EQ(pieces(parts.all()[1]), (std::vector<Piece>{{0, 6, 1, -1}}));
  const Flat alone = flat({{0, 6, 1, -1}});
  parts.halve(alone.batch());
  EXPECT_EQ(parts.all().size(), 1u);
  const Flat one_row = flat({{0, 1, 1, 1}});
  parts.halve(one_row.batch());
  EXPECT_EQ(parts.all().size(), 1u);
}

}  // namespace
}  // namespace krait::shard
