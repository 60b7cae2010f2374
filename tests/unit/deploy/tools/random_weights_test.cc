#include "deploy/tools/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "deploy/tools/published_shapes.h"

namespace krait::tools {
namespace {

int64_t parameters(const ModelPlan& plan) {
  std::set<std::string> counted;
  int64_t count = 0;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      if (counted.insert(spec.stored_name()).second) count += StoredTensor{.shape = spec.stored_shape()}.elements();
    }
  }
  return count;
}

ModelPlan plan_of(const std::string& shape) {
  return make_model_plan(parse_model_config(shape_config(shape).value()).value()).value();
}

/// Where five are compared exactly, it is the sum over the tensors of the checkpoint; of the others only a rounded one
/// is known.
TEST(PublishedShapes, HaveAsManyParametersAsThePublishedModels) {
  EXPECT_EQ(parameters(plan_of("mamba-130m")), 129'135'360);
  EXPECT_EQ(parameters(plan_of("mamba-370m")), 371'516'416);
  EXPECT_EQ(parameters(plan_of("mamba-1.4b")), 1'372'178'432);
  EXPECT_EQ(parameters(plan_of("mamba-2.8b")), 2'768'345'600);
  EXPECT_EQ(parameters(plan_of("falcon-mamba-7b")), 7'272'665'088);
  EXPECT_NEAR(static_cast<double>(parameters(plan_of("mamba2-2.7b"))), 2.70e9, 0.01e9);
  EXPECT_NEAR(static_cast<double>(parameters(plan_of("zamba2-2.7b"))), 2.7e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(parameters(plan_of("zamba-7b"))), 7.23e9, 0.01e9);
}

TEST(PublishedShapes, AnUnknownNameIsRefusedWithThoseThatThereAre) {
  const auto config = shape_config("mamba-7");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().message.find("falcon-mamba-7b"), std::string::npos) << config.error().message;
}

std::vector<std::byte> bytes_of(const TensorSource& source, const StoredTensor& tensor, int64_t first, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  EXPECT_TRUE(source.read(tensor, first, bytes).ok());
  return bytes;
}

TEST(RandomWeights, BytesAreTheSameHoweverTheyAreRead) {
  const ModelPlan plan = plan_of("mamba-130m");
  const RandomWeights one("a", plan, 7);
  const RandomWeights same("b", plan, 7);
  const RandomWeights other("c", plan, 8);
  const StoredTensor& tensor = *one.find("backbone.layers.3.mixer.x_proj.weight");
  const auto whole = bytes_of(one, tensor, 0, 4096);
  EXPECT_EQ(whole, bytes_of(same, *same.find("backbone.layers.3.mixer.x_proj.weight"), 0, 4096));
  EXPECT_NE(whole, bytes_of(other, tensor, 0, 4096));
  EXPECT_NE(whole, bytes_of(one, *one.find("backbone.layers.4.mixer.x_proj.weight"), 0, 4096));
  for (const int64_t first : {0, 1, 2, 7, 8, 13, 1000, 4093}) {
    for (const int64_t count : {0, 1, 2, 3, 8, 9, 64}) {
      if (first + count > 4096) continue;
      const std::vector<std::byte> part(whole.begin() + first, whole.begin() + first + count);
      EXPECT_EQ(bytes_of(one, tensor, first, count), part) << first << " " << count;
    }
  }
}

/// A small model of every family that has a shape.
const char* const kTiny[] = {
    R"({"model_type": "mamba", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2})",
    R"({"model_type": "mamba2", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8,
        "head_dim": 8, "state_size": 16, "n_groups": 2})",
    R"({"model_type": "zamba", "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
        "attention_head_dim": 16, "intermediate_size": 64})"};

TEST(RandomWeights, SlicesOfAllRanksAreTheWhole) {
  for (const char* config : kTiny) {
    const auto checkpoint = random_checkpoint("tiny", config).value();
    for (const int world : {2, 3, 4}) {
      const Partition partition = make_partition(checkpoint->config(), world).value();
      for (const BlockPlan& block : checkpoint->plan().blocks) {
        for (const TensorSpec& spec : block.tensors) {
          if (spec.cut.whole() || spec.cut.axis != 0 || spec.cut.segments.size() != 1) continue;
          if (spec.cut.segments[0].kind != Segment::Kind::kCut) continue;
          const auto read = [&](const Partition& of, int rank, std::vector<float>& into) {
            auto reader = *checkpoint->slice(spec, of, rank).value();
            std::vector<float> values(static_cast<size_t>(reader.rows() * reader.row_elements()));
            ASSERT_TRUE(reader.read_all(values).ok());
            into.insert(into.end(), values.begin(), values.end());
          };
          std::vector<float> whole, together;
          read(make_partition(checkpoint->config(), 1).value(), 0, whole);
          for (int rank = 0; rank < world; ++rank)
            read(partition, rank, together);
          EXPECT_EQ(whole, together) << spec.name << " of " << world;
        }
      }
    }
  }
}

TEST(RandomWeights, ValuesAreOfOrdinarySize) {
  const auto checkpoint = random_checkpoint("tiny", kTiny[0]).value();
  const Partition whole = make_partition(checkpoint->config(), 1).value();
  for (const BlockPlan& block : checkpoint->plan().blocks) {
    for (const TensorSpec& spec : block.tensors) {
      auto reader = *checkpoint->slice(spec, whole, 0).value();
      std::vector<float> values(static_cast<size_t>(reader.rows() * reader.row_elements()));
      ASSERT_TRUE(reader.read_all(values).ok());
      EXPECT_EQ(reader.nonfinite(), 0);
      double sum = 0, squares = 0;
      for (const float value : values) {
        sum += double{value};
        squares += double{value} * double{value};
      }
      const auto count = static_cast<double>(values.size());
      if (spec.packing != Packing::kNone) {
        // Five times what the means of that many values stray by.
        const auto k = static_cast<double>(spec.shape.back());
        EXPECT_NEAR(sum / count * std::sqrt(k), 0, 5 / std::sqrt(count)) << spec.name;
        EXPECT_NEAR(squares / count * k, 1, 5 / std::sqrt(count)) << spec.name;
      } else if (spec.role == "A_log") {
        EXPECT_NEAR(sum / count, std::log(16.0) / 2, 0.2);
      } else if (spec.role == "norm.weight" || spec.role == "D") {
        EXPECT_NEAR(sum / count, 1, 0.05) << spec.name;
      }
    }
  }
}

}  // namespace
}  // namespace krait::tools
