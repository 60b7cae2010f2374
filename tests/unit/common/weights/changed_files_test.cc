// A checkpoint whose files are changed while it is open: never a number from two contents, never a signal.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/units.h"
#include "common/weights/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

using test::ScratchDir;

constexpr std::string_view kConfig =
    R"({"model_type":"mamba","hidden_size":64,"vocab_size":2000,"num_hidden_layers":2,"eos_token_id":1})";

class ChangedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    write(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the next write has another time
    checkpoint_ = Checkpoint::open(folder_.path()).value();
  }
  void write(uint64_t seed) {
    const auto plan = make_model_plan(*parse_model_config(kConfig));
    test::write_checkpoint(folder_.path(), kConfig, test::random_tensors(*plan, seed), 3);
  }
  std::string file(int number) const {
    return fmt::format("{}/model-{:05}-of-00003.safetensors", folder_.path(), number);
  }

  /// All of the embedding, or the error.
  Result<std::vector<float>> embedding() const {
    const TensorSpec& spec = checkpoint_->plan().blocks[0].tensors[0];
    auto reader = checkpoint_->slice(spec, *make_partition(checkpoint_->config(), 1), 0).value();
    std::vector<float> all(static_cast<size_t>(reader->rows() * reader->row_elements()));
    RETURN_IF_ERROR(reader->read_all(all));
    return all;
  }

  ScratchDir folder_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

TEST_F(ChangedFiles, AFileCutShortIsNamedByWhoeverReads) {
  std::filesystem::resize_file(file(1), 100'000);
  const auto read = embedding();
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Errc::kCorrupt);
  EXPECT_EQ(read.error().param, file(1));
  const Status status = checkpoint_->check_unchanged();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().param, file(1));
}

TEST_F(ChangedFiles, AReaderThatFailedStillFails) {
  const TensorSpec& spec = checkpoint_->plan().blocks[0].tensors[0];
  auto reader = checkpoint_->slice(spec, *make_partition(checkpoint_->config(), 1), 0).value();
  std::vector<float> row(static_cast<size_t>(reader->row_elements()));
  ASSERT_TRUE(reader->read_row(0, row).ok());
  std::filesystem::resize_file(file(1), 100'000);
  EXPECT_FALSE(reader->read_row(1990, row).ok());
  EXPECT_FALSE(reader->read_row(1990, row).ok()) << "what was half read is not used";
}

TEST_F(ChangedFiles, AWriteInPlaceIsSeenInWhicheverFile) {
  for (const int number : {3, 2, 1}) {
    std::fstream(file(number), std::ios::in | std::ios::out | std::ios::binary).seekp(50'000) << "X";
    const Status status = checkpoint_->check_unchanged();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Errc::kCorrupt);
    EXPECT_EQ(status.error().param, file(number));
  }
}

TEST_F(ChangedFiles, AnotherCheckpointUnderTheSameNamesDoesNotMatterToWhatIsOpen) {
  const auto before = embedding();
  const std::string fingerprint = checkpoint_->fingerprint();
  for (int number = 1; number <= 3; ++number)
    std::filesystem::rename(file(number), file(number) + ".old");  // the writer truncates what it finds
  write(2);
  EXPECT_TRUE(checkpoint_->check_unchanged().ok());
  EXPECT_EQ(*embedding(), *before);
  EXPECT_EQ(checkpoint_->fingerprint(), fingerprint);
  EXPECT_NE((*Checkpoint::open(folder_.path()))->fingerprint(), fingerprint);
}

TEST_F(ChangedFiles, NothingIsMapped) {
  ASSERT_TRUE(embedding().ok());
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line); ++lines)
    EXPECT_EQ(line.find(folder_.path()), std::string::npos) << line;
  EXPECT_GT(lines, 10);
}

}  // namespace
}  // namespace krait
