#include "common/model/model_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/model/architecture.h"
#include "tests/support/golden.h"

namespace krait {
namespace {

ModelConfig small_config() {
  return {.architecture = "mamba",
          .hidden_size = 10,
          .inner_size = 12,
          .state_size = 3,
          .dt_rank = 2,
          .conv_kernel = 4,
          .layers = 2,
          .vocab_size = 30,
          .tie_word_embeddings = true,
          .use_conv_bias = true};
}

std::map<std::string, Shape> shapes_by_name(const ModelPlan& plan) {
  std::map<std::string, Shape> shapes;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors)
      shapes[spec.stored_name()] = spec.shape;
  }
  return shapes;
}

TEST(ModelPlan, HasExactlyTheTensorsOfTheFixture) {
  const std::string folder = test::golden_path("models/mamba/");
  const auto config = parse_model_config(test::read_file(folder + "config.json"));
  ASSERT_TRUE(config.ok());
  const auto plan = make_model_plan(*config);
  ASSERT_TRUE(plan.ok());
  const auto file = SafetensorsFile::open(folder + "model.safetensors");
  ASSERT_TRUE(file.ok());
  std::map<std::string, Shape> stored;
  for (const auto& [name, view] : (*file)->tensors())
    stored[name] = view.shape;
  EXPECT_EQ(shapes_by_name(*plan), stored);
}

TEST(ModelPlan, BlocksAreInTheOrderOfTheForwardPass) {
  const auto plan = make_model_plan(small_config());
  ASSERT_TRUE(plan.ok());
  std::vector<std::pair<BlockKind, int>> order;
  for (const BlockPlan& block : plan->blocks)
    order.emplace_back(block.kind, block.layer);
  const std::vector<std::pair<BlockKind, int>> expected{
      {BlockKind::kEmbedding, -1}, {BlockKind::kMamba, 0}, {BlockKind::kMamba, 1}, {BlockKind::kLmHead, -1}};
  EXPECT_EQ(order, expected);
  EXPECT_EQ(block_kind_name(BlockKind::kMamba), "mamba");
}

TEST(ModelPlan, ATiedHeadIsReadFromTheEmbeddings) {
  ModelConfig config = small_config();
  const auto tied = make_model_plan(config);
  const TensorSpec* head = tied->blocks.back().find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->stored_name(), "backbone.embeddings.weight");
  EXPECT_EQ(head->cut, cut_by(Unit::kVocab, 0, 30));
  EXPECT_EQ(tied->harmless_tensors, std::vector<std::string>{"lm_head.weight"});

  config.tie_word_embeddings = false;
  const auto untied = make_model_plan(config);
  EXPECT_EQ(untied->blocks.back().find("lm_head.weight")->stored_name(), "lm_head.weight");
  EXPECT_TRUE(untied->harmless_tensors.empty());
}

TEST(ModelPlan, BiasesAreThereWhereTheConfigSaysSo) {
  ModelConfig config = small_config();
  config.use_bias = true;
  config.use_conv_bias = false;
  const auto plan = make_model_plan(config);
  const BlockPlan& block = plan->blocks[1];
  EXPECT_EQ(block.find("conv1d.bias"), nullptr);
  ASSERT_NE(block.find("in_proj.bias"), nullptr);
  EXPECT_EQ(block.find("in_proj.bias")->cut, block.find("in_proj.weight")->cut);
  ASSERT_NE(block.find("out_proj.bias"), nullptr);
  EXPECT_TRUE(block.find("out_proj.bias")->cut.whole());
}

TEST(ModelPlan, EveryCutIsOfItsTensor) {
  ModelConfig config = small_config();
  config.use_bias = true;
  for (const Architecture* architecture : all_architectures()) {
    config.architecture = architecture->name;
    const auto plan = make_model_plan(config);
    ASSERT_TRUE(plan.ok()) << architecture->name;
    std::set<std::string> names;
    for (const BlockPlan& block : plan->blocks) {
      for (const TensorSpec& spec : block.tensors) {
        EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
        if (spec.cut.whole()) continue;
        ASSERT_LT(static_cast<size_t>(spec.cut.axis), spec.shape.size()) << spec.name;
        int64_t extent = 0;
        for (const Segment& segment : spec.cut.segments)
          extent += segment.elements();
        EXPECT_EQ(extent, spec.shape[static_cast<size_t>(spec.cut.axis)]) << spec.name;
      }
    }
  }
}

TEST(ModelPlan, AnUnknownArchitectureIsAnError) {
  ModelConfig config = small_config();
  config.architecture = "transformer";
  const auto plan = make_model_plan(config);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace krait
