// Tables from figures: what is fastest is taken, changes that hardly pay are not, and every size has its row.
#include "deploy/tools/link_measure.h"

#include <gtest/gtest.h>

#include "common/base/units.h"
#include "shard_server/collectives/sum_table.h"
#include "shard_server/service/collective_plan.h"

namespace krait::tools {
namespace {

using collectives::Codec;

constexpr int64_t kSmallStage = 64 * kKiB;
constexpr int64_t kLargeStage = 256 * kKiB;

/// A sum of each size and codec: one shot takes bytes + 10'000, two shots half the bytes + 100'000 (nanoseconds).
std::vector<LinkFigure> made_up(double codec_share) {
  std::vector<LinkFigure> figures;
  for (const auto& codec : collectives::all_codecs()) {
    for (const int64_t size : link_sizes()) {
      const double share = codec.format ? codec_share : 1;
      const auto part = static_cast<int64_t>(static_cast<double>(size) * (codec.format ? 0.25 : 1));
      const double packing = codec.format ? 20'000 : 0;
      const double bytes = static_cast<double>(size) * share;
      figures.push_back({codec.codec, size, part, false, kSmallStage, (bytes + 10'000 + packing) * 1e-9});
      figures.push_back({codec.codec, size, part, true, kLargeStage, (bytes / 2 + 100'000 + packing) * 1e-9});
    }
  }
  return figures;
}

TEST(AlgorithmsFrom, ChangeWhereTheOtherOneIsFaster) {
  const auto rows = algorithms_from(made_up(0.5));
  wire::CollectivePlan plan;
  plan.algorithms = rows;
  const auto table = shard::algorithms_of(plan).value();
  for (const auto& codec : collectives::all_codecs()) {
    for (const LinkFigure& figure : made_up(0.5)) {
      if (figure.codec != codec.codec) continue;
      const auto* row = table->find(codec.codec, figure.part_bytes);
      ASSERT_NE(row, nullptr);
      const LinkFigure* best = fastest(made_up(0.5), codec.codec, figure.float_bytes);
      EXPECT_EQ(row->two_shot, best->two_shot) << codec.name << " " << figure.float_bytes;
      EXPECT_EQ(row->stage_bytes, best->stage_bytes);
    }
  }
  EXPECT_EQ(rows.size(), 2 * collectives::all_codecs().size()) << "equal rows are one";
}

TEST(AlgorithmsFrom, DoNotChangeForLittle) {
  auto figures = made_up(1);
  for (LinkFigure& figure : figures)
    figure.seconds = figure.two_shot == (figure.float_bytes >= kMiB) ? 0.97 : 1;
  for (const auto& row : algorithms_from(figures))
    EXPECT_FALSE(row.two_shot);
  EXPECT_TRUE(algorithms_from({}).empty());
}

TEST(CodecsBySizeFrom, PackWhereItPays) {
  const auto rows = codecs_by_size_from(made_up(0.25));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].codec, "exact");
  EXPECT_NE(rows[1].codec, "exact");
  // 20 us of packing are earned back at 20'000 / 0.75 bytes.
  EXPECT_GT(rows[0].bytes, 16 * kKiB);
  EXPECT_LT(rows[0].bytes, 64 * kKiB);
  const auto never = codecs_by_size_from(made_up(1));
  ASSERT_EQ(never.size(), 1u);
  EXPECT_EQ(never[0].codec, "exact");
}

TEST(CodecsBySizeFrom, DoNotTakeAGreatErrorForItsSpeed) {
  auto figures = made_up(0.25);
  for (LinkFigure& figure : figures) {
    if (figure.codec == Codec::kInt4) figure.seconds = 1e-9;
  }
  for (const auto& row : codecs_by_size_from(figures))
    EXPECT_NE(row.codec, "int4");
}

}  // namespace
}  // namespace krait::tools
