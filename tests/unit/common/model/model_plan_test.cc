#include "common/model/model_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/model/architecture.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait {
namespace {

ModelConfig small_config() {
  return {.architecture = "mamba",
          .hidden_size = 10,
          .layers = 2,
          .vocab_size = 30,
          .tie_word_embeddings = true,
          .mixer = {.inner_size = 12, .state_size = 3, .conv_kernel = 4, .use_conv_bias = true, .dt_rank = 2}};
}

std::map<std::string, Shape> shapes_by_name(const ModelPlan& plan) {
  std::map<std::string, Shape> shapes;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors)
      shapes[spec.stored_name()] = spec.stored_shape();
  }
  return shapes;
}

class EveryFamily : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryFamily, testing::Values("mamba", "falcon_mamba", "mamba2", "zamba", "zamba2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ModelPlan, EveryArchitectureHasAFixture) {
  EXPECT_EQ(all_architectures().size(), 7u)
      << "add it to EveryFamily; state_spaces and gguf are other spellings of some";
}

ModelPlan fixture_plan(const std::string& family) {
  const auto config = parse_model_config(test::read_file(test::golden_path("models/" + family + "/config.json")));
  EXPECT_TRUE(config.ok()) << to_string(config.error());
  EXPECT_TRUE(config->unknown_fields.empty()) << config->unknown_fields.front();
  return *make_model_plan(*config);
}

TEST_P(EveryFamily, HasExactlyTheTensorsOfTheFixture) {
  const std::string folder = test::golden_path(fmt::format("models/{}/", GetParam()));
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
  config.mixer.use_bias = true;
  config.mixer.use_conv_bias = false;
  const auto plan = make_model_plan(config);
  const BlockPlan& block = plan->blocks[1];
  EXPECT_EQ(block.find("conv1d.bias"), nullptr);
  ASSERT_NE(block.find("in_proj_z.bias"), nullptr);
  EXPECT_EQ(block.find("in_proj_z.bias")->cut, block.find("in_proj_z.weight")->cut);
  ASSERT_NE(block.find("out_proj.bias"), nullptr);
  EXPECT_TRUE(block.find("out_proj.bias")->cut.whole());
}

TEST_P(EveryFamily, CutsAreOfTheirTensors) {
  for (const BlockPlan& block : fixture_plan(GetParam()).blocks) {
    std::set<std::string> roles;
    for (const TensorSpec& spec : block.tensors) {
      EXPECT_TRUE(roles.insert(spec.role).second) << spec.role << " twice";
      if (spec.cut.whole()) continue;
      ASSERT_LT(static_cast<size_t>(spec.cut.axis), spec.shape.size()) << spec.name;
      int64_t extent = 0;
      for (const Segment& segment : spec.cut.segments)
        extent += segment.elements();
      EXPECT_EQ(extent, spec.shape[static_cast<size_t>(spec.cut.axis)]) << spec.name;
    }
  }
}

TEST_P(EveryFamily, ViewsShareOutEveryElementOnce) {
  std::map<std::string, std::vector<int>> uses;  // of each stored element, by tensor
  for (const BlockPlan& block : fixture_plan(GetParam()).blocks) {
    for (const TensorSpec& spec : block.tensors) {
      if (!spec.source.empty()) continue;  // another layer's, or the embeddings
      auto& counts = uses[spec.name];
      counts.resize(static_cast<size_t>(StoredTensor{.shape = spec.stored_shape()}.elements()));
      for (const int64_t element : test::stored_elements(spec))
        ++counts.at(static_cast<size_t>(element));
    }
  }
  for (const auto& [name, counts] : uses)
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<int64_t>(counts.size())) << name;
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
