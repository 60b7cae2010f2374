// The layout of Mamba's authors: the fixtures in that spelling have the bits of Hugging Face's.
#include <gtest/gtest.h>

#include "common/weights/safetensors.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/golden.h"
#include "tests/support/safetensors_writer.h"

namespace krait::test {
namespace {

/// The fixture's tensors under the authors' names.
std::vector<TensorToWrite> authors_tensors(const std::string& family) {
  const auto file = SafetensorsFile::open(golden_path("models/" + family + "/model.safetensors")).value();
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, stored] : file->tensors()) {
    int64_t bytes = dtype_bytes(stored.dtype);
    for (const int64_t extent : stored.shape)
      bytes *= extent;
    TensorToWrite tensor{name, stored.dtype, stored.shape, std::string(static_cast<size_t>(bytes), '\0')};
    EXPECT_TRUE(file->read(stored, 0, std::as_writable_bytes(std::span(tensor.bytes))).ok());
    if (name == "backbone.embeddings.weight") tensor.name = "backbone.embedding.weight";
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<std::vector<float>> logits_of(const std::string& model, int world) {
  EngineGroupOptions options;
  options.model_dir = model;
  options.world = world;
  EngineGroup group(options);
  group.keep_logits();
  return run_sequence(group, 0, {7, 400, 33, 33, 5, 120}, 4, 3, scored_greedily()).prompt_logits;
}

void expect_same(const std::string& family, const std::string& config) {
  const ScratchDir folder;
  write_checkpoint(folder.path(), config, authors_tensors(family));
  for (const int world : {1, 2})
    EXPECT_EQ(logits_of(folder.path(), world), logits_of(golden_path("models/" + family), world)) << family;
}

TEST(StateSpaces, AnswersAsTheSameModelInTheOtherSpelling) {
  expect_same("mamba", R"({"d_model": 64, "n_layer": 4, "vocab_size": 509, "ssm_cfg": {}, "rms_norm": true,
      "residual_in_fp32": true, "fused_add_norm": true, "pad_vocab_size_multiple": 8})");
  expect_same("mamba2", R"({"d_model": 64, "d_intermediate": 0, "n_layer": 4, "vocab_size": 512,
      "ssm_cfg": {"layer": "Mamba2", "d_state": 16, "headdim": 16}, "attn_layer_idx": [], "attn_cfg": {}, "rms_norm": true,
      "residual_in_fp32": true, "fused_add_norm": true, "pad_vocab_size_multiple": 16, "tie_embeddings": false})");
}

TEST(StateSpaces, WhatItCannotHonourIsNamed) {
  const auto error_of = [](const std::string& more) {
    const auto config = parse_model_config(R"({"d_model": 64, "n_layer": 4, "vocab_size": 512)" + more + "}");
    return config.ok() ? Error{} : config.error();
  };
  EXPECT_TRUE(error_of("").message.empty());
  EXPECT_EQ(error_of(R"(, "attn_layer_idx": [3])").param, "attn_layer_idx");
  EXPECT_EQ(error_of(R"(, "d_intermediate": 100)").param, "d_intermediate");
  EXPECT_EQ(error_of(R"(, "rms_norm": false)").param, "rms_norm");
  EXPECT_NE(error_of(R"(, "ssm_cfg": {"layer": "Mamba3"})").message.find("Mamba3"), std::string::npos);
  EXPECT_NE(error_of(R"(, "ssm_cfg": {"d_stat": 16})").message.find("d_stat"), std::string::npos);
  EXPECT_NE(error_of(R"(, "ssm_cfg": {"layer": "Mamba2", "headdim": 50})").message.find("headdim"), std::string::npos);
  EXPECT_EQ(error_of(R"(, "ssm_cfg": 3)").param, "ssm_cfg");
}

}  // namespace
}  // namespace krait::test
