// Weights that are no numbers, and files that change under a loaded model: never a silent wrong token.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shard_server/collectives/loopback.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

constexpr std::string_view kConfig =
    R"({"model_type": "mamba", "hidden_size": 16, "intermediate_size": 32, "state_size": 4, "time_step_rank": 2,
        "num_hidden_layers": 1, "vocab_size": 20, "tie_word_embeddings": false})";

/// A small model whose tensor `name` has `value` in its elements [first, first + count).
void write_model(const std::string& folder, const std::string& name, float value, size_t first, size_t count) {
  auto tensors = random_tensors(*make_model_plan(*parse_model_config(kConfig)), 1);
  for (auto& tensor : tensors) {
    if (tensor.name != name) continue;
    for (size_t i = first; i < first + count; ++i)
      std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
  }
  write_checkpoint(folder, kConfig, tensors);
}

wire::Step one_run(const wire::SamplingParams& sampling, std::vector<int32_t> tokens, uint32_t position) {
  wire::Step step;
  if (position == 0) step.admissions.push_back({0, static_cast<uint32_t>(tokens.size()), sampling});
  auto& run = step.runs.emplace_back();
  run.in_slot = position == 0 ? -1 : 0;
  run.position = position;
  run.prompt_logprobs = sampling.prompt_logprobs && !tokens.empty();
  run.tokens = std::move(tokens);
  run.sample = true;
  return step;
}

TEST(BadWeights, LogitsThatAreNoNumbersFailTheSequenceOnEveryRank) {
  // Rank 7 of 8 holds no vocabulary; the digests of all ranks are compared by the group.
  for (const auto& [value, world] : {std::pair{float{NAN}, 1}, {float{NAN}, 8}, {float{INFINITY}, 3}}) {
    const ScratchDir folder;
    write_model(folder.path(), "backbone.norm_f.weight", value, 0, 16);
    EngineGroup group({.model_dir = folder.path(), .world = world});
    for (const float temperature : {0.0f, 1.0f}) {
      for (const int32_t logprobs : {-1, 3}) {
        wire::SamplingParams sampling;
        sampling.temperature = temperature;
        sampling.logprobs = logprobs;
        const auto first = group.step(one_run(sampling, {3, 5}, 0));
        ASSERT_EQ(first.samples.size(), 1u);
        EXPECT_TRUE(first.samples[0].failed);
        EXPECT_FALSE(first.samples[0].done);
        // The plan after this one may be on its way already.
        const auto second = group.step(one_run(sampling, {}, 2));
        EXPECT_TRUE(second.samples.at(0).done);
        EXPECT_FALSE(second.samples.at(0).failed);
      }
    }
  }
}

TEST(BadWeights, ScoresThatAreNoNumbersFail) {
  const ScratchDir folder;
  write_model(folder.path(), "lm_head.weight", NAN, 5 * 16, 16);  // the logit of token 5 alone
  EngineGroup group({.model_dir = folder.path(), .world = 2});
  wire::SamplingParams sampling;
  sampling.prompt_logprobs = true;
  sampling.logprobs = 0;
  EXPECT_TRUE(group.step(one_run(sampling, {3, 5, 4}, 0)).prompt_logprobs.at(0).failed);
  EXPECT_FALSE(group.step(one_run(sampling, {3, 6, 4}, 0)).prompt_logprobs.at(0).failed);
}

TEST(BadWeights, ARowOfNaNThatNobodyChoosesDoesNoHarm) {
  const ScratchDir folder;
  write_model(folder.path(), "lm_head.weight", NAN, 5 * 16, 16);
  for (const int world : {1, 2}) {
    EngineGroup group({.model_dir = folder.path(), .world = world});
    for (const float temperature : {0.0f, 1.0f}) {
      for (const int32_t logprobs : {-1, 20}) {
        wire::SamplingParams sampling;
        sampling.temperature = temperature;
        sampling.logprobs = logprobs;
        const auto sample = group.step(one_run(sampling, {3, 7}, 0)).samples.at(0);
        EXPECT_FALSE(sample.failed);
        EXPECT_NE(sample.token.token, 5);
        EXPECT_TRUE(std::isfinite(sample.token.logprob));
        EXPECT_EQ(sample.token.top.size(), logprobs < 0 ? 0u : 19u) << "of 20 tokens one has no logprob";
        for (const auto& top : sample.token.top)
          EXPECT_TRUE(std::isfinite(top.logprob)) << top.token;
      }
    }
  }
}

TEST(BadWeights, AreCountedOnceOverAllRanksAlsoWhereTheyStayInTheFile) {
  for (const char* tensor :
       {"backbone.embeddings.weight", "lm_head.weight", "backbone.layers.0.mixer.in_proj.weight"}) {
    const ScratchDir folder;
    write_model(folder.path(), tensor, INFINITY, 16, 37);
    const auto checkpoint = Checkpoint::open(folder.path()).value();
    int64_t count = 0;
    for (int rank = 0; rank < 3; ++rank) {
      shard::EngineOptions options;
      options.rank = rank;
      options.partition = make_partition(checkpoint->config(), 3).value();
      options.slots = 1;
      count += shard::Engine::load(checkpoint, options).value()->nonfinite_weights();
    }
    EXPECT_EQ(count, 37) << tensor;
  }
}

/// A loaded model of one rank and its file.
class ChangedFile : public testing::Test {
 protected:
  void SetUp() override {
    write_model(folder_.path(), "", 0, 0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the next write has another time
    group_ = std::make_unique<EngineGroup>(EngineGroupOptions{.model_dir = folder_.path(), .world = 2});
    ASSERT_TRUE(step().empty());
  }
  /// What a step said: nothing where it went well.
  std::string step() {
    try {
      group_->step(one_run({}, {3, 19}, 0));
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  ScratchDir folder_;
  const std::string file_ = folder_.path() + "/model.safetensors";
  std::unique_ptr<EngineGroup> group_;
};

TEST_F(ChangedFile, AWriteInPlaceEndsTheNextStepWithTheFilesName) {
  std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary).seekp(-4, std::ios::end) << "XXXX";
  EXPECT_NE(step().find(file_ + ": was written to"), std::string::npos) << step();
}

TEST_F(ChangedFile, ACutEndsTheNextStepWithTheFilesName) {
  std::filesystem::resize_file(file_, 10);
  EXPECT_NE(step().find(file_ + ": was "), std::string::npos) << step();
}

TEST_F(ChangedFile, AnotherFileUnderItsNameDoesNotMatter) {
  std::filesystem::remove(file_);
  EXPECT_EQ(step(), "");
  write_model(folder_.path(), "backbone.embeddings.weight", NAN, 0, 320);
  EXPECT_EQ(step(), "");
}

}  // namespace
}  // namespace krait::test
