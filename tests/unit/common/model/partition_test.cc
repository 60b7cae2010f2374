#include "common/model/partition.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace krait {
namespace {

ModelConfig sizes(int64_t inner, int64_t vocab) {
  ModelConfig config;
  config.unit(Unit::kChannel) = {.count = inner, .block = 16, .width = 1};
  config.unit(Unit::kVocab) = {.count = vocab, .block = 16};
  return config;
}

Partition partition_of(int64_t inner, int64_t vocab, int world, std::vector<double> shares = {}) {
  auto partition = make_partition(sizes(inner, vocab), world, shares);
  EXPECT_TRUE(partition.ok()) << to_string(partition.error());
  return partition.ok() ? *partition : Partition{};
}

using Ranges = std::vector<Range>;

TEST(Partition, EqualRangesKeepTheBits) {
  for (const int world : {1, 2, 4, 8}) {
    const Partition partition = partition_of(1536, 50280, world);
    EXPECT_TRUE(partition.aligned) << world;
    EXPECT_EQ(partition.leaves(), 8 / world);
    for (int rank = 0; rank < world; ++rank)
      EXPECT_EQ(partition.range(Unit::kChannel, rank).size(), 1536 / world);
  }
  EXPECT_EQ(partition_of(24, 5, 8).of(Unit::kChannel).back(), (Range{21, 24}));
}

TEST(Partition, OtherRangesAreBlocksOfSixteen) {
  const Partition three = partition_of(128, 512, 3);
  EXPECT_FALSE(three.aligned);
  EXPECT_EQ(three.leaves(), 1);
  EXPECT_EQ(three.of(Unit::kChannel), (Ranges{{0, 32}, {32, 80}, {80, 128}}));
  EXPECT_EQ(three.of(Unit::kVocab), (Ranges{{0, 160}, {160, 336}, {336, 512}}));
}

TEST(Partition, AChannelCountThatEightDoesNotDivideIsNotAligned) {
  const Partition one = partition_of(100, 100, 1);
  EXPECT_FALSE(one.aligned);
  EXPECT_EQ(one.leaves(), 1);
  EXPECT_EQ(partition_of(100, 100, 2).of(Unit::kChannel), (Ranges{{0, 48}, {48, 100}}));
}

TEST(Partition, FewChannelsLeaveRanksEmpty) {
  const Partition partition = partition_of(20, 10, 7);
  int holding = 0;
  for (const Range& range : partition.of(Unit::kChannel))
    holding += range.size() > 0 ? 1 : 0;
  EXPECT_EQ(holding, 2);
  EXPECT_EQ(partition.of(Unit::kVocab).back(), (Range{0, 10}));
}

TEST(Partition, RangesCoverAndAreNearlyEqual) {
  for (int world = 1; world <= limits::kMaxWorld; ++world) {
    for (const int64_t count : {1, 7, 16, 100, 129, 1536, 5120, 50277, 50280}) {
      const Partition partition = partition_of(count, count, world);
      EXPECT_TRUE(check_partition(sizes(count, count), partition).ok());
      int64_t least = count;
      int64_t most = 0;
      for (const Range& range : partition.of(Unit::kVocab)) {
        least = std::min(least, range.size());
        most = std::max(most, range.size());
      }
      EXPECT_LT(most - least, 2 * 16) << count << " over " << world;
    }
  }
}

TEST(Partition, SharesAreFollowed) {
  const Partition partition = partition_of(128, 512, 2, {3, 1});
  EXPECT_FALSE(partition.aligned);
  EXPECT_EQ(partition.of(Unit::kChannel), (Ranges{{0, 96}, {96, 128}}));
  EXPECT_EQ(partition.of(Unit::kVocab), (Ranges{{0, 384}, {384, 512}}));
  EXPECT_EQ(partition_of(128, 512, 2, {0.5, 0.5}), partition_of(128, 512, 2));
  for (int64_t count = 1; count < 400; ++count) {
    const Partition odd = partition_of(count, count, 3, {1e-6, 0.1, 1e6});
    EXPECT_TRUE(check_partition(sizes(count, count), odd).ok()) << count;
  }
}

TEST(Partition, BadArgumentsAreRefused) {
  const auto refused = [](int world, std::vector<double> shares, const std::string& param) {
    const auto partition = make_partition(sizes(128, 512), world, shares);
    return !partition.ok() && partition.error().code == Errc::kInvalidArgument && partition.error().param == param;
  };
  EXPECT_TRUE(refused(0, {}, "world"));
  EXPECT_TRUE(refused(9, {}, "world"));
  EXPECT_TRUE(refused(2, {1}, "shares"));
  EXPECT_TRUE(refused(2, {1, 0}, "shares"));
  EXPECT_TRUE(refused(2, {1, -1}, "shares"));
  EXPECT_TRUE(refused(2, {1, std::numeric_limits<double>::infinity()}, "shares"));
  EXPECT_TRUE(refused(2, {std::numeric_limits<double>::quiet_NaN(), 1}, "shares"));
}

TEST(Partition, APartitionFromElsewhereIsChecked) {
  const ModelConfig config = sizes(128, 512);
  const Partition sound = partition_of(128, 512, 2);
  const auto refused = [&](const auto& spoil) {
    Partition partition = sound;
    spoil(partition);
    const Status status = check_partition(config, partition);
    return !status.ok() && status.error().param == "partition";
  };
  constexpr auto kChannel = static_cast<size_t>(Unit::kChannel);
  constexpr auto kVocab = static_cast<size_t>(Unit::kVocab);
  EXPECT_TRUE(check_partition(config, sound).ok());
  EXPECT_TRUE(refused([](Partition& p) { p.world = 0; }));
  EXPECT_TRUE(refused([](Partition& p) { p.world = 3; }));
  EXPECT_TRUE(refused([](Partition& p) { p.aligned = false; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kChannel] = {{0, 64}, {65, 128}}; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kChannel] = {{0, 64}, {63, 128}}; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kChannel] = {{0, 48}, {48, 128}}; }));  // aligned, it says
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kChannel] = {{0, 129}, {129, 128}}; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kVocab] = {{0, 256}, {256, 511}}; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kVocab] = {{0, 256}, {256, 513}}; }));
  EXPECT_TRUE(refused([](Partition& p) { p.ranges[kVocab].pop_back(); }));
}

TEST(LocalParts, SegmentsAreCutEachForItself) {
  const Segment channels{.kind = Segment::Kind::kCut, .unit = Unit::kChannel, .count = 128};
  const TensorSpec in_proj{.shape = {256, 64}, .cut = {.axis = 0, .segments = {channels, channels}}};
  const Partition three = partition_of(128, 512, 3);
  EXPECT_EQ(local_parts(in_proj, three, 1), (Ranges{{32, 80}, {160, 208}}));
  EXPECT_EQ(local_shape(in_proj, three, 1), (Shape{96, 64}));
}

TEST(LocalParts, WidthsAndSharedSegmentsFitOneCut) {
  // What later families need: units of several rows (a head, an interleaved pair) beside rows that every rank holds.
  const Segment pairs{.kind = Segment::Kind::kCut, .unit = Unit::kChannel, .count = 128, .width = 2};
  const Segment shared{.kind = Segment::Kind::kWhole, .count = 10};
  const TensorSpec spec{.shape = {266}, .cut = {.axis = 0, .segments = {pairs, shared}}};
  const Partition two = partition_of(128, 512, 2);
  EXPECT_EQ(local_parts(spec, two, 1), (Ranges{{128, 256}, {256, 266}}));
  EXPECT_EQ(local_shape(spec, two, 0), (Shape{138}));
}

TEST(LocalParts, AGroupIsHeldByEveryRankThatUsesIt) {
  ModelConfig config;
  config.unit(Unit::kHead) = {.count = 6, .block = 1, .width = 4, .parts = 3};
  const auto partition = make_partition(config, 4);
  ASSERT_TRUE(partition.ok());
  EXPECT_EQ(partition->of(Unit::kHead), (Ranges{{0, 1}, {1, 3}, {3, 4}, {4, 6}}));
  EXPECT_FALSE(partition->aligned);
  const Segment groups{.kind = Segment::Kind::kCover, .unit = Unit::kHead, .count = 3, .width = 5};
  const TensorSpec spec{.shape = {15}, .cut = {.axis = 0, .segments = {groups}}};
  EXPECT_EQ(local_parts(spec, *partition, 0), (Ranges{{0, 5}}));
  EXPECT_EQ(local_parts(spec, *partition, 1), (Ranges{{0, 10}}));
  EXPECT_EQ(local_parts(spec, *partition, 2), (Ranges{{5, 10}}));
  EXPECT_EQ(local_parts(spec, *partition, 3), (Ranges{{10, 15}}));
}

TEST(LocalParts, AHeadOfSeveralHasItsOwnChannels) {
  const Segment second{.unit = Unit::kChannel, .count = 64, .first = 64};
  const TensorSpec spec{.shape = {3, 64}, .cut = {.axis = 1, .segments = {second}}};
  const Partition three = partition_of(128, 512, 3);  // 0..32, 32..80, 80..128
  EXPECT_TRUE(local_parts(spec, three, 0).empty());
  EXPECT_EQ(local_parts(spec, three, 1), (Ranges{{0, 16}}));
  EXPECT_EQ(local_parts(spec, three, 2), (Ranges{{16, 64}}));
}

TEST(Partition, PartsWithSumsOfTheirOwnMustNest) {
  const auto aligned = [](int64_t count, int64_t width, int64_t parts, int world) {
    ModelConfig config;
    config.unit(Unit::kHead) = {.count = count, .block = 1, .width = width, .parts = parts};
    return make_partition(config, world)->aligned;
  };
  EXPECT_TRUE(aligned(8, 16, 1, 8));
  EXPECT_TRUE(aligned(8, 16, 2, 8));
  EXPECT_TRUE(aligned(8, 16, 8, 2));
  EXPECT_FALSE(aligned(24, 16, 3, 2));  // the second group lies across the cut
  EXPECT_FALSE(aligned(4, 16, 1, 8));   // heads are not cut
  EXPECT_FALSE(aligned(8, 1, 2, 2));    // four channels of a group are no eight leaves
}

TEST(Partition, RanksThatShareAPartAreASubGroup) {
  ModelConfig config;
  config.unit(Unit::kChannel) = {.count = 128, .block = 16, .width = 1, .parts = 2};
  EXPECT_FALSE(sub_group(config, *make_partition(config, 2), 0).has_value());
  EXPECT_EQ(sub_group(config, *make_partition(config, 8), 5), (SubGroup{.first = 4, .world = 4, .index = 1}));
  EXPECT_FALSE(sub_group(config, *make_partition(config, 3), 1).has_value());
  EXPECT_EQ(make_partition(config, 8)->leaves_of_part(2), 2);
  EXPECT_EQ(make_partition(config, 2)->leaves_of_part(2), 8);
  EXPECT_EQ(make_partition(config, 8)->leaves(), 1);
}

TEST(LocalParts, AnEmptyRangeGivesAnEmptyTensor) {
  const TensorSpec spec{.shape = {20, 4}, .cut = cut_by(Unit::kChannel, 0, 20)};
  const Partition partition = partition_of(20, 10, 7);
  EXPECT_EQ(local_shape(spec, partition, 0), (Shape{0, 4}));
  EXPECT_TRUE(local_parts(spec, partition, 0).empty());
}

}  // namespace
}  // namespace krait
