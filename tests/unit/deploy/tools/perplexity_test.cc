#include "deploy/tools/perplexity.h"

#include <gtest/gtest.h>

namespace krait::tools {
namespace {

using Sequences = std::vector<std::vector<int32_t>>;

ModelConfig ends_with(std::vector<int32_t> eos, std::optional<int32_t> bos) {
  ModelConfig config;
  config.eos_ids = std::move(eos);
  config.bos_id = bos;
  return config;
}

Sequences cut(std::vector<int32_t> text, const ModelConfig& config, int64_t context = 0) {
  auto sequences = sequences_of(text, config, context);
  return sequences.ok() ? std::move(sequences).value() : Sequences{};
}

TEST(SequencesOf, DocumentsEndAtTheEndOfText) {
  const ModelConfig both = ends_with({0}, 0);
  EXPECT_EQ(cut({5, 6, 0, 7, 8, 9}, both), (Sequences{{0, 5, 6}, {0, 7, 8, 9}}));
  EXPECT_EQ(cut({0, 5, 0, 0, 7, 0}, both), (Sequences{{0, 5}, {0, 7}}));
  EXPECT_EQ(cut({5, 2, 7, 3, 8}, ends_with({2, 3}, 1)), (Sequences{{1, 5}, {1, 7}, {1, 8}}));
  EXPECT_EQ(cut({1, 5, 2, 1, 7}, ends_with({2}, 1)), (Sequences{{1, 5}, {1, 7}})) << "the text begins them itself";
  EXPECT_EQ(cut({5, 2, 7}, ends_with({2}, std::nullopt)), (Sequences{{2, 5}, {2, 7}}));
}

TEST(SequencesOf, WithoutATokenToBeginWithTheFirstIsNotForetold) {
  const ModelConfig none = ends_with({}, std::nullopt);
  EXPECT_EQ(cut({5, 6, 7}, none), (Sequences{{5, 6, 7}}));
  EXPECT_FALSE(sequences_of(std::vector<int32_t>{5}, none, 0).ok());
}

TEST(SequencesOf, LongDocumentsAreCut) {
  const ModelConfig config = ends_with({0}, 0);
  EXPECT_EQ(cut({1, 2, 3, 4, 5, 0, 6}, config, 2), (Sequences{{0, 1, 2}, {0, 3, 4}, {0, 5}, {0, 6}}));
}

TEST(SequencesOf, NothingToForetellIsAnError) {
  EXPECT_FALSE(sequences_of({}, ends_with({0}, 0), 0).ok());
  EXPECT_FALSE(sequences_of(std::vector<int32_t>{0, 0}, ends_with({0}, 0), 0).ok());
}

}  // namespace
}  // namespace krait::tools
