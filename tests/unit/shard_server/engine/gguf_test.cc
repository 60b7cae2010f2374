// GGUF files: the fixtures in llama.cpp's spelling have the bits of Hugging Face's, and blocks those of the floats that
// they stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "common/base/rng.h"
#include "common/tensor/half.h"
#include "common/weights/safetensors.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

struct Weights final {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

std::vector<Weights> fixture(const std::string& family) {
  const Reference file(golden_path("models/" + family + "/model.safetensors"));
  std::vector<Weights> all;
  const auto names = SafetensorsFile::open(golden_path("models/" + family + "/model.safetensors")).value();
  for (const auto& [name, stored] : names->tensors())
    all.push_back({name, stored.shape, file.floats(name)});
  return all;
}

/// What llama.cpp's converter calls it.
std::string gguf_name(const std::string& name) {
  if (name == "backbone.embeddings.weight") return "token_embd.weight";
  if (name == "backbone.norm_f.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const std::string rest = name.substr(std::string("backbone.layers.").size());
  const size_t dot = rest.find('.');
  const std::string layer = "blk." + rest.substr(0, dot) + ".";
  const std::string part = rest.substr(dot + 1);
  static const std::map<std::string, std::string> kParts{{"norm.weight", "attn_norm.weight"},
                                                         {"mixer.in_proj.weight", "ssm_in.weight"},
                                                         {"mixer.conv1d.weight", "ssm_conv1d.weight"},
                                                         {"mixer.conv1d.bias", "ssm_conv1d.bias"},
                                                         {"mixer.x_proj.weight", "ssm_x.weight"},
                                                         {"mixer.dt_proj.weight", "ssm_dt.weight"},
                                                         {"mixer.dt_proj.bias", "ssm_dt.bias"},
                                                         {"mixer.dt_bias", "ssm_dt.bias"},
                                                         {"mixer.A_log", "ssm_a"},
                                                         {"mixer.D", "ssm_d"},
                                                         {"mixer.out_proj.weight", "ssm_out.weight"},
                                                         {"mixer.norm.weight", "ssm_norm.weight"}};
  return layer + kParts.at(part);
}

/// The converter's view of it: A, not its logarithm; no axis of one in the convolution; Mamba-2's vectors of heads are
/// columns.
Weights converted(Weights weights, int64_t groups) {
  const std::string name = gguf_name(weights.name);
  if (weights.name.ends_with("A_log")) {
    for (float& value : weights.values)
      value = static_cast<float>(-std::exp(double{value}));
  }
  if (name.ends_with("conv1d.weight")) weights.shape.erase(weights.shape.begin() + 1);
  if (groups > 0 && (name.ends_with("ssm_a") || name.ends_with("ssm_d"))) weights.shape.push_back(1);
  if (name.ends_with("ssm_norm.weight")) weights.shape = {groups, weights.shape[0] / groups};
  weights.name = name;
  return weights;
}

struct Encoded final {
  uint32_t type;
  std::string bytes;
  std::vector<float> worth;  // what the bytes stand for
};
using Encode = std::function<Encoded(const std::vector<float>&)>;

Encoded as_f32(const std::vector<float>& values) {
  return {0, encode_floats(values, DType::kF32), values};
}

/// Blocks whose scale makes the largest element 127 (Q8_0) or -8 (Q4_0), as a quantizer does; any would do here.
Encoded in_blocks(const std::vector<float>& values, bool eight_bits) {
  Encoded out{eight_bits ? 8u : 2u, "", {}};
  for (size_t begin = 0; begin < values.size(); begin += 32) {
    float largest = 0;
    for (size_t i = begin; i < begin + 32; ++i)
      largest = std::max(largest, std::abs(values[i]));
    const std::string half = encode_floats(std::vector<float>{largest / (eight_bits ? 127.0f : 8.0f)}, DType::kF16);
    const float scale =
        f16_to_f32(static_cast<uint16_t>(static_cast<uint8_t>(half[0]) | static_cast<uint8_t>(half[1]) << 8));
    std::array<int, 32> numbers{};
    for (size_t i = 0; i < 32; ++i) {
      const int limit = eight_bits ? 127 : 7;
      const auto nearest = scale == 0 ? 0 : static_cast<int>(std::lround(values[begin + i] / scale));
      numbers.at(i) = std::clamp(nearest, -limit - 1, limit);
      out.worth.push_back(scale * static_cast<float>(numbers.at(i)));
    }
    out.bytes += half;
    for (size_t i = 0; i < (eight_bits ? 32u : 16u); ++i) {
      const int byte = eight_bits ? numbers.at(i) : (numbers.at(i) + 8) | (numbers.at(i + 16) + 8) << 4;
      out.bytes.push_back(static_cast<char>(byte));
    }
  }
  return out;
}

void add_keys(GgufWriter& writer, const ModelConfig& config, bool second) {
  const std::string prefix = second ? "mamba2." : "mamba.";
  const auto integer = [&](const std::string& name, int64_t value) {
    writer.integer(prefix + name, static_cast<uint32_t>(value));
  };
  writer.text("general.architecture", second ? "mamba2" : "mamba");
  integer("context_length", 1 << 20);
  integer("embedding_length", config.hidden_size);
  integer("feed_forward_length", 0);
  integer("attention.head_count", 0);
  integer("block_count", config.layers);
  integer("ssm.conv_kernel", config.mixer.conv_kernel);
  integer("ssm.inner_size", config.mixer.inner_size);
  integer("ssm.state_size", config.mixer.state_size);
  integer("ssm.time_step_rank", second ? config.mixer.heads : config.mixer.dt_rank);
  if (second) integer("ssm.group_count", config.mixer.groups);
  writer.number(prefix + "attention.layer_norm_rms_epsilon", config.norm_eps);
  if (!second) writer.flag(prefix + "ssm.dt_b_c_rms", config.mixer.dt_b_c_norm_eps.has_value());
  writer.integer("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(config.eos_ids.at(0)));
}

/// The fixture in `folder`/m.gguf, its matrices encoded so where their rows are whole blocks, and, in the folder
/// itself, the safetensors of what the file's elements are worth.
void write_both(const std::string& family, const ScratchDir& folder, const Encode& encode) {
  const auto checkpoint = Checkpoint::open(golden_path("models/" + family)).value();
  const bool second = family == "mamba2";
  GgufWriter writer;
  add_keys(writer, checkpoint->config(), second);
  std::vector<TensorToWrite> folders;
  for (const Weights& weights : fixture(family)) {
    const Weights file = converted(weights, second ? checkpoint->config().mixer.groups : 0);
    const bool matrix = weights.shape.size() == 2 && weights.shape[1] % 32 == 0 && !weights.name.ends_with("A_log");
    const Encoded encoded = matrix ? encode(file.values) : as_f32(file.values);
    writer.tensor({file.name, encoded.type, file.shape, encoded.bytes});
    folders.push_back({weights.name, DType::kF32, weights.shape,
                       encode_floats(matrix ? encoded.worth : weights.values, DType::kF32)});
  }
  folder.write("m.gguf", writer.file());
  write_checkpoint(folder.path(), read_file(golden_path("models/" + family + "/config.json")), folders);
}

std::vector<std::vector<float>> logits_of(const std::string& model, int world, DType dtype) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  options.dtype = dtype;
  EngineGroup group(options);
  group.keep_logits();
  auto run = run_sequence(group, 0, {7, 400, 33, 33, 5, 120, 2, 9}, 4, 6, scored_greedily());
  run.prompt_logits.insert(run.prompt_logits.end(), run.decode_logits.begin(), run.decode_logits.end());
  return run.prompt_logits;
}

class GgufModel : public testing::TestWithParam<const char*> {};

TEST_P(GgufModel, HasTheBitsOfItsFolder) {
  const ScratchDir folder;
  write_both(GetParam(), folder, as_f32);
  for (const DType dtype : {DType::kF32, DType::kI8}) {
    const auto expected = logits_of(golden_path(std::string("models/") + GetParam()), 1, dtype);
    for (const int world : {1, 2, 8})
      EXPECT_EQ(logits_of(folder.path() + "/m.gguf", world, dtype), expected) << world << weight_type_name(dtype);
  }
}

TEST_P(GgufModel, BlocksAreReadWhereverARanksSliceCutsThem) {
  for (const bool eight_bits : {true, false}) {
    const ScratchDir folder;
    write_both(GetParam(), folder, [&](const auto& values) { return in_blocks(values, eight_bits); });
    const auto expected = logits_of(folder.path(), 1, DType::kF32);
    for (const int world : {1, 4, 8}) {
      EXPECT_EQ(logits_of(folder.path() + "/m.gguf", world, DType::kF32), expected) << world;
    }
    EXPECT_NE(expected, logits_of(golden_path(std::string("models/") + GetParam()), 1, DType::kF32));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GgufModel, testing::Values("mamba", "falcon_mamba", "mamba2"),
                         [](const auto& info) { return std::string(info.param); });

/// The error of the fixture's file after a change to it.
Error error_after(const std::string& from, const std::string& to) {
  const ScratchDir folder;
  write_both("mamba2", folder, as_f32);
  std::string file = read_file(folder.path() + "/m.gguf");
  const size_t at = file.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(from.size(), to.size());
  file.replace(at, from.size(), to);
  const auto opened = Checkpoint::open(folder.write("m.gguf", file));
  return opened.ok() ? Error{} : opened.error();
}

TEST(GgufModel, WhatDoesNotFitIsNamedByItsKeyOrTensor) {
  const auto said = [](const std::string& from, const std::string& to) { return error_after(from, to).message; };
  const auto expect = [](const std::string& message, const std::string& words) {
    EXPECT_NE(message.find("/m.gguf: " + words), std::string::npos) << message;
  };
  expect(said(gguf_text("mamba2"), gguf_text("llama2")),
         "general.architecture is 'llama2'; of GGUF files mamba and mamba2");
  expect(said("mamba2.block_count", "mamba2.block_comte"), "mamba2.block_count is missing");
  expect(said("mamba2.ssm.group_count", "mamba2.ssm.group_comte"), "mamba2.ssm.group_count is missing");
  const std::string heads = "mamba2.ssm.time_step_rank" + gguf_bytes(uint32_t{4});
  expect(said(heads + gguf_bytes(uint32_t{8}), heads + gguf_bytes(uint32_t{7})),
         "mamba2.ssm.time_step_rank 7 do not share 128");
  expect(said(heads + gguf_bytes(uint32_t{8}), heads + gguf_bytes(uint32_t{4})), "tensor 'blk.0.ssm_in.weight'");
  expect(said("blk.1.ssm_d", "blk.1.ssm_e"), "tensor 'blk.1.ssm_d' is missing");
  expect(said("output_norm.weight", "output_morn.weight"), "tensor 'output_norm.weight' is missing");
  expect(said("token_embd.weight", "token_embb.weight"), "rows of token_embd.weight is missing");
  const std::string eos = "tokenizer.ggml.eos_token_id" + gguf_bytes(uint32_t{4});
  expect(said(eos + gguf_bytes(uint32_t{2}), eos + gguf_bytes(uint32_t{70'000})), "eos_token_id holds something");
}

TEST(GgufModel, AnUnknownKeyOfItsArchitectureIsToldAndNoOther) {
  const ScratchDir folder;
  write_both("mamba", folder, as_f32);
  EXPECT_TRUE(Checkpoint::open(folder.path() + "/m.gguf").value()->config().unknown_fields.empty());
  std::string file = read_file(folder.path() + "/m.gguf");
  file.replace(file.find("mamba.context_length"), 20, "mamba.context_weight");
  const auto config = Checkpoint::open(folder.write("m.gguf", file)).value()->config();
  EXPECT_EQ(config.unknown_fields, std::vector<std::string>{"mamba.context_weight"});
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{2});
}

}  // namespace
}  // namespace krait::test
