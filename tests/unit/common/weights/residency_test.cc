// Reading must not keep a file's pages in the process: what is resident is asked of the kernel.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "common/base/units.h"
#include "common/weights/slice_reader.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

constexpr int64_t kRows = 8192;
constexpr int64_t kColumns = 2048;  // float32: 64 MiB

/// Resident bytes of this process's mapping of the file.
int64_t resident_bytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  int64_t bytes = -1;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) {
      inside = true;
      bytes = std::max<int64_t>(bytes, 0);
    } else if (inside && line.starts_with("Rss:")) {
      bytes += std::stoll(line.substr(4)) * kKiB;
      inside = false;
    }
  }
  return bytes;
}

class Residency : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string header = fmt::format(R"({{"t":{{"dtype":"F32","shape":[{},{}],"data_offsets":[0,{}]}}}})", kRows,
                                           kColumns, kRows * kColumns * 4);
    path_ = folder_.write("big.safetensors", test::safetensors_file(header, std::string(kRows * kColumns * 4, '\0')));
    auto file = SafetensorsFile::open(path_);
    ASSERT_TRUE(file.ok());
    file_ = std::move(file).value();
    partition_.world = 2;
    partition_.ranges[0] = {{0, kColumns / 2}, {kColumns / 2, kColumns}};
  }

  SliceReader reader(Cut cut) {
    const TensorSpec spec{.name = "t", .shape = {kRows, kColumns}, .cut = std::move(cut)};
    return SliceReader::make(file_, *file_->find("t"), spec, partition_, 1).value();
  }

  test::ScratchDir folder_;
  std::string path_;
  std::shared_ptr<const SafetensorsFile> file_;
  Partition partition_;
};

TEST_F(Residency, ReadingALargeTensorKeepsOnlyAWindow) {
  for (const Cut& cut : {whole_cut(), cut_by(Unit::kChannel, 1, kColumns)}) {
    int64_t most = 0;
    {
      SliceReader slices = reader(cut);
      std::vector<float> row(static_cast<size_t>(slices.row_elements()));
      for (int64_t i = 0; i < slices.rows(); ++i) {
        slices.read_row(i, row);
        if (i % 256 == 0) most = std::max(most, resident_bytes(path_));
      }
    }
    EXPECT_GT(most, 1 * kMiB);  // else the measure itself is broken
    EXPECT_LT(most, 12 * kMiB);
    EXPECT_GE(resident_bytes(path_), 0);
    EXPECT_LT(resident_bytes(path_), kMiB / 2);
  }
}

TEST_F(Residency, DroppedPagesReadTheSameAgain) {
  TensorView view = *file_->find("t");
  view.dtype = DType::kU8;
  view.shape = {view.elements()};
  int64_t sum = 0;
  for (int64_t i = 0; i < view.bytes(); i += 4096)
    sum += static_cast<int64_t>(view.data[i]);
  EXPECT_EQ(sum, 0);
  const int64_t before = resident_bytes(path_);
  EXPECT_GT(before, view.bytes() / 2);
  file_->drop_pages(view);
  EXPECT_LT(resident_bytes(path_), before - view.bytes() / 2);
  EXPECT_EQ(view.data[view.bytes() / 2], std::byte{0});
}

}  // namespace
}  // namespace krait
