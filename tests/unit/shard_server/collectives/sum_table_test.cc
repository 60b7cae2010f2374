// The measured table: which row a sum finds, what no table may be, and that bits do not hang on it.
#include "shard_server/collectives/sum_table.h"

#include <gtest/gtest.h>

#include "shard_server/collectives/loopback.h"
#include "tests/support/rank_threads.h"

namespace krait::collectives {
namespace {

const std::vector<SumAlgorithm> kRows = {
    {Codec::kFloat32, 1000, false, 4096}, {Codec::kFloat32, 5000, true, 8192}, {Codec::kInt8, 300, true, 1024}};

TEST(SumTable, FindsTheFirstRowThatASumFits) {
  const SumTable table = SumTable::make(kRows).value();
  for (const auto& [bytes, row] : {std::pair<int64_t, size_t>{0, 0}, {1000, 0}, {1001, 1}, {5000, 1}, {5001, 1}}) {
    ASSERT_NE(table.find(Codec::kFloat32, bytes), nullptr);
    EXPECT_EQ(*table.find(Codec::kFloat32, bytes), kRows[row]) << bytes;
  }
  EXPECT_EQ(*table.find(Codec::kInt8, 1 << 20), kRows[2]);
  for (const Codec codec : {Codec::kBf16, Codec::kInt4Rotated})
    EXPECT_EQ(table.find(codec, 100), nullptr) << "between and behind the codecs that have rows";
  EXPECT_EQ(table.most_stage_bytes(), 8192);
  EXPECT_EQ(SumTable().find(Codec::kFloat32, 1), nullptr);
  EXPECT_EQ(SumTable().most_stage_bytes(), 0);
}

TEST(SumTable, RefusesWhatIsNoTableAndNamesTheRow) {
  const auto refused = [](auto change) {
    auto rows = kRows;
    change(rows);
    const auto made = SumTable::make(rows);
    return made.ok() ? std::string("taken") : made.error().message + " " + made.error().param;
  };
  EXPECT_EQ(refused([](auto&) {}), "taken");
  EXPECT_NE(refused([](auto& rows) { rows[1].bytes = 1000; }).find("row 1: bytes"), std::string::npos);
  EXPECT_NE(refused([](auto& rows) { rows[0].bytes = 0; }).find("row 0"), std::string::npos);
  EXPECT_NE(refused([](auto& rows) { rows[2].codec = Codec::kFloat32; }).find("row 2: bytes"), std::string::npos);
  EXPECT_NE(refused([](auto& rows) { rows[0].codec = Codec::kInt4; }).find("row 1: codecs"), std::string::npos);
  EXPECT_NE(refused([](auto& rows) { rows[2].stage_bytes = limits::kMinCollectiveStageBytes - 1; }).find("row 2"),
            std::string::npos);
  EXPECT_NE(refused([](auto& rows) { rows[2].stage_bytes = limits::kMaxCollectiveStageBytes + 1; }).find("stage_bytes"),
            std::string::npos);
}

TEST(SumTable, TheDigestTellsEveryField) {
  const uint64_t whole = SumTable::make(kRows)->digest();
  EXPECT_NE(whole, 0u);
  EXPECT_EQ(SumTable().digest(), 0u);
  for (int change = 0; change < 5; ++change) {
    auto rows = kRows;
    if (change == 0) rows[2].codec = Codec::kBf16;
    if (change == 1) rows[1].bytes += 1;
    if (change == 2) rows[0].two_shot = true;
    if (change == 3) rows[0].stage_bytes += 1;
    if (change == 4) rows.pop_back();
    EXPECT_NE(SumTable::make(rows)->digest(), whole) << change;
  }
}

TEST(SizeCodecs, GoByTheSizeOfASum) {
  const std::vector<SizeCodec> rows = {{100, Codec::kFloat32}, {200, Codec::kBf16}};
  EXPECT_TRUE(check_size_codecs(rows).ok());
  EXPECT_EQ(codec_of_size(rows, 100), Codec::kFloat32);
  EXPECT_EQ(codec_of_size(rows, 101), Codec::kBf16);
  EXPECT_EQ(codec_of_size(rows, 1'000'000), Codec::kBf16);
  EXPECT_FALSE(check_size_codecs({{100, Codec::kFloat32}, {100, Codec::kBf16}}).ok());
  EXPECT_FALSE(check_size_codecs({{0, Codec::kFloat32}}).ok());
}

/// Sums of several sizes and codecs, one behind another, on rank 0.
std::vector<float> sums_with(std::shared_ptr<const SumTable> algorithms, int64_t stage_bytes) {
  Options options = fresh_options(3, ReduceOrder::kRankOrder);
  options.max_rows = 64;
  options.max_width = 300;
  options.stage_bytes = stage_bytes;
  options.algorithms = std::move(algorithms);
  std::vector<float> all;
  const auto results = run_ranks(make_loopback_communicator, options, [&](Communicator& communicator) -> Status {
    for (const CodecEntry& codec : all_codecs()) {
      for (const int64_t rows : {1, 3, 64}) {
        std::vector<float> data(static_cast<size_t>(rows * 300));
        for (size_t i = 0; i < data.size(); ++i)
          data[i] = std::sin(static_cast<float>(i + 7 * static_cast<size_t>(communicator.rank())));
        RETURN_IF_ERROR(communicator.all_reduce(rows, 300, data.data(), data.data(), {codec.codec, 1}));
        if (communicator.rank() == 0) all.insert(all.end(), data.begin(), data.end());
      }
    }
    return {};
  });
  for (const Status& result : results)
    EXPECT_TRUE(result.ok()) << to_string(result.error());
  return all;
}

TEST(SumTable, NoBitHangsOnIt) {
  const auto plain = sums_with(nullptr, limits::kCollectiveStageBytes);
  for (const bool two_shot : {false, true}) {
    for (const int64_t stage : {limits::kMinCollectiveStageBytes, int64_t{4096}, limits::kMaxCollectiveStageBytes}) {
      std::vector<SumAlgorithm> rows;
      for (const CodecEntry& codec : all_codecs()) {
        rows.push_back({codec.codec, 1024, !two_shot, 2048});
        rows.push_back({codec.codec, 4096, two_shot, stage});
      }
      EXPECT_EQ(sums_with(std::make_shared<SumTable>(SumTable::make(rows).value()), 8192), plain) << stage;
    }
  }
}

TEST(SumTable, RanksWithOtherTablesAreNoGroup) {
  Options options = fresh_options(2, ReduceOrder::kTree);
  options.timeout_ns = kSecond;
  const auto results = run_ranks(
      [](const Options& given) {
        Options mine = given;
        if (mine.rank == 1) mine.algorithms = std::make_shared<SumTable>(SumTable::make(kRows).value());
        return make_loopback_communicator(mine);
      },
      options, [](Communicator&) { return Status(); });
  for (const Status& result : results)
    EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace krait::collectives
