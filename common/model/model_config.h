// What a model IS, read from its config.json: sizes and switches, checked against limits, nothing guessed.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/model/tensor_spec.h"

namespace krait {

/// The state-space mixer of every layer. I, N, K, R, G in the shapes of tensors everywhere else.
struct MixerConfig final {
  int64_t inner_size = 0;   // I
  int64_t state_size = 0;   // N
  int64_t conv_kernel = 0;  // K
  int64_t heads = 1;        // Mamba-1: heads with x_proj and dt_proj of their own (Zamba), else 1; Mamba-2: num_heads
  bool use_bias = false;    // biases of in_proj and out_proj
  bool use_conv_bias = false;
  // Mamba-1 and its kin.
  int64_t dt_rank = 0;                   // R: "auto" is ceil(H / 16)
  std::optional<float> dt_b_c_norm_eps;  // Falcon-Mamba: dt, B and C are normed, each for itself, without a weight
  // Mamba-2 and its kin.
  int64_t groups = 1;  // G: heads / G neighbouring heads share B and C
  float gate_norm_eps = 0;
  float dt_min = 0;  // dt is clamped to [dt_min, dt_max] after softplus
  float dt_max = std::numeric_limits<float>::infinity();

  friend bool operator==(const MixerConfig&, const MixerConfig&) = default;
};

/// The transformer blocks of a hybrid, shared by the layers that run one before their mixer. F = mlp_size.
struct SharedTransformerConfig final {
  std::vector<int32_t> layers;  // those that run one, ascending; empty: not a hybrid
  int64_t blocks = 1;           // stored ones; the j-th of `layers` runs block j mod blocks
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  float score_scale = 0;             // of q k, before the softmax
  std::optional<double> rope_theta;  // none: no rotary embedding
  int64_t mlp_size = 0;
  float norm_eps = 0;
  int64_t adapter_rank = 0;  // of the low-rank additions that each layer has for itself
  bool mlp_adapters = false;
  bool attention_adapters = false;  // of q, k and v

  friend bool operator==(const SharedTransformerConfig&, const SharedTransformerConfig&) = default;
};

/// What a unit of the partition is in this model.
struct UnitConfig final {
  int64_t count = 0;  // in the whole model; 0: the model has none
  int64_t block = 1;  // units that stay together where ranges are not equal
  int64_t width = 0;  // elements of K a unit, in products whose K is cut by it; 0: none is
  int64_t parts = 1;  // equal pieces of the units that have sums of their own (heads of Zamba, groups of Mamba-2)

  friend bool operator==(const UnitConfig&, const UnitConfig&) = default;
};

/// Sizes and switches of one model. H = hidden_size, V = vocab_size in the shapes of tensors everywhere else.
struct ModelConfig final {
  std::string architecture;  // a name of architectures.def ("mamba")
  int64_t hidden_size = 0;   // H
  int64_t layers = 0;
  int64_t vocab_size = 0;  // V
  float norm_eps = 0;
  bool tie_word_embeddings = false;
  MixerConfig mixer;
  SharedTransformerConfig shared;
  std::array<UnitConfig, kUnits> units;  // what the ranks of a group share out
  std::string torch_dtype;               // as the file spells it ("bfloat16"), or empty; the tensors' own dtypes rule
  std::vector<int32_t> eos_ids;          // union of both files, ascending, each below vocab_size; may be empty
  std::optional<int32_t> bos_id;
  std::vector<std::string> unknown_fields;  // fields of config.json that nobody here knows: to be logged once

  const UnitConfig& unit(Unit which) const { return units[static_cast<size_t>(which)]; }
  UnitConfig& unit(Unit which) { return units[static_cast<size_t>(which)]; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Reads config.json and, where there is one, generation_config.json (texts, not paths).
/// Errors: kUnsupported for a model type or a value that the code cannot honour, kCorrupt for everything else;
/// `param` is the field ("hidden_size", "generation_config.eos_token_id"). Takes any bytes without harm.
Result<ModelConfig> parse_model_config(std::string_view config_json,
                                       std::optional<std::string_view> generation_config_json = std::nullopt);

}  // namespace krait
