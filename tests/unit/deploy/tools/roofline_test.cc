#include "deploy/tools/roofline.h"

#include <gtest/gtest.h>

#include "deploy/tools/published_shapes.h"

namespace krait::tools {
namespace {

ModelPlan plan_of(const std::string& shape) {
  return make_model_plan(parse_model_config(shape_config(shape).value()).value()).value();
}

/// By hand, for mamba-130m in float32: H 768, I 1536, N 16, R 48, K 4, V 50280, 24 layers. Panels have 64 rows, so that
/// x_proj's 80 take the room of 128, and lm_head's 50280 that of 50304.
TEST(Roofline, CountsWhatAStepReadsAndMultiplies) {
  const Roofline roofline(plan_of("mamba-130m"), 1, DType::kF32);
  constexpr double kMatrices = 2 * 1536 * 768 + 128 * 1536 + 1536 * 48 + 768 * 1536;
  constexpr double kVectors = 768 + 1536 * 4 + 1536 + 1536 + 1536 * 16 + 1536;
  constexpr double kLayer = 4 * (kMatrices + kVectors);
  constexpr double kHead = 4.0 * (50304 * 768 + 768);
  constexpr double kState = 24 * 4.0 * (1536 * 3 + 1536 * 16);
  constexpr double kRowOperations = 24 * 2.0 * (2 * 1536 * 768 + 80 * 1536 + 1536 * 48 + 768 * 1536);
  EXPECT_EQ(roofline.state_bytes(), static_cast<int64_t>(kState));

  StepRecord decode;
  decode.decode_rows = decode.runs = decode.sampled_rows = 3;
  EXPECT_DOUBLE_EQ(roofline.of(decode).bytes, 24 * kLayer + kHead + 3 * 2 * kState);
  EXPECT_DOUBLE_EQ(roofline.of(decode).operations, 3 * (kRowOperations + 2.0 * 50280 * 768));

  StepRecord chunk;  // of a prompt that goes on
  chunk.prefill_rows = 100;
  chunk.runs = 1;
  EXPECT_DOUBLE_EQ(roofline.of(chunk).bytes, 24 * kLayer + 2 * kState) << "lm_head stays unread";
  EXPECT_DOUBLE_EQ(roofline.of(chunk).operations, 100 * kRowOperations);
}

TEST(Roofline, SharedTransformersCountAsOftenAsTheyRun) {
  const ModelPlan plan = plan_of("zamba-7b");
  const Roofline roofline(plan, 1, DType::kBF16);
  StepRecord chunk;
  chunk.prefill_rows = chunk.runs = 1;
  const double once = roofline.of(chunk).operations;
  // 76 mixers; 13 times the transformer that is stored once, each with a linear of its own.
  constexpr double kMixer = 2.0 * (2 * 7424.0 * 3712 + 264.0 * 7424 + 7424.0 * 232 + 3712.0 * 7424);
  constexpr double kTransformer = 2.0 * (4 * 7424.0 * 7424 - 7424.0 * 3712 + 3 * 14848.0 * 3712 + 3712.0 * 3712);
  EXPECT_NEAR(once / (76 * kMixer + 13 * kTransformer), 1, 1e-9);
  chunk.read_tokens = 10;
  StepRecord other = chunk;
  other.read_tokens = 11;
  EXPECT_DOUBLE_EQ(roofline.of(other).bytes - roofline.of(chunk).bytes, 13 * 2.0 * 7424 * 4) << "keys and values";
}

TEST(Roofline, IsTheSlowerOfReadingAndMultiplying) {
  const Peaks peaks{.read_gbytes = 10, .gops = 100};
  EXPECT_DOUBLE_EQ(Roofline::seconds({.bytes = 1e10, .operations = 1e10}, peaks), 1);
  EXPECT_DOUBLE_EQ(Roofline::seconds({.bytes = 1e10, .operations = 3e11}, peaks), 3);
  EXPECT_DOUBLE_EQ(Roofline::seconds({.bytes = 1e10, .operations = 3e11}, {.read_gbytes = 10}), 1);
}

}  // namespace
}  // namespace krait::tools
