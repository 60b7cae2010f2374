// How many sums a forward pass makes: those that the mathematics asks for, and no more.
#include <gtest/gtest.h>

#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

/// All-reduces of a step of one row on rank 0.
int64_t sums_of_a_step(const std::string& model, int world) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  EngineGroup group(options);
  const auto before = group.statistics(0);
  wire::SamplingParams greedy;
  greedy.temperature = 0;
  run_sequence(group, 0, {5}, 1, 1, greedy);
  constexpr auto kAllReduce = static_cast<size_t>(collectives::OpKind::kAllReduce);
  return group.statistics(0)[kAllReduce].operations - before[kAllReduce].operations;
}

struct Count final {
  const char* family;
  int world;
  int64_t sums;
};

class Collectives : public testing::TestWithParam<Count> {};

TEST_P(Collectives, AreNoMoreThanTheModelNeeds) {
  const auto [family, world, sums] = GetParam();
  EXPECT_EQ(sums_of_a_step(golden_path(fmt::format("models/{}", family)), world), sums);
}

// Mamba and Falcon-Mamba: x_proj and out_proj in each of 4 layers. Mamba-2 with one group: out_proj, whose sum carries
// the norm's. Zamba: out_proj in 6 layers, o_proj and down_proj in 2; x_proj only where ranks share one of two heads.
// Zamba2: out_proj in 7 layers, o_proj and down_proj in 4.
INSTANTIATE_TEST_SUITE_P(Families, Collectives,
                         testing::Values(Count{"mamba", 2, 8}, Count{"mamba", 3, 8}, Count{"falcon_mamba", 2, 8},
                                         Count{"mamba2", 2, 4}, Count{"mamba2", 3, 4}, Count{"mamba2", 8, 4},
                                         Count{"zamba", 2, 10}, Count{"zamba", 3, 16}, Count{"zamba", 4, 16},
                                         Count{"zamba2", 2, 15}, Count{"zamba2", 4, 15}),
                         [](const auto& info) {
                           return fmt::format("{}World{}", info.param.family, info.param.world);
                         });

TEST(CollectivesOfSeveralGroups, AreOneSmallOneMoreOnlyWhereRanksShareAGroup) {
  const std::string config =
      R"({"model_type": "mamba2", "hidden_size": 32, "expand": 2, "num_heads": 8, "head_dim": 8, "n_groups": 2,
          "state_size": 4, "num_hidden_layers": 3, "vocab_size": 40})";
  const auto plan = make_model_plan(*parse_model_config(config));
  const ScratchDir folder;
  write_checkpoint(folder.path(), config, random_tensors(*plan, 1));
  EXPECT_EQ(sums_of_a_step(folder.path(), 2), 3);
  EXPECT_EQ(sums_of_a_step(folder.path(), 3), 6);
  EXPECT_EQ(sums_of_a_step(folder.path(), 4), 6);
}

}  // namespace
}  // namespace krait::test
