// What a model IS, read from its config.json: sizes and switches, checked against limits, nothing guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace krait {

/// Sizes and switches of one model. H = hidden_size, I = inner_size, N = state_size, R = dt_rank, K = conv_kernel,
/// V = vocab_size in the shapes of tensors everywhere else.
struct ModelConfig final {
  std::string architecture;  // a name of architectures.def ("mamba")
  int64_t hidden_size = 0;   // H
  int64_t inner_size = 0;    // I: intermediate_size where the file has it, else expand * H
  int64_t state_size = 0;    // N
  int64_t dt_rank = 0;       // R: "auto" is ceil(H / 16)
  int64_t conv_kernel = 0;   // K
  int64_t layers = 0;
  int64_t vocab_size = 0;  // V
  float norm_eps = 0;
  bool tie_word_embeddings = false;
  bool use_bias = false;  // biases of in_proj and out_proj
  bool use_conv_bias = false;
  std::string torch_dtype;       // as the file spells it ("bfloat16"), or empty; the tensors' own dtypes rule
  std::vector<int32_t> eos_ids;  // union of both files, ascending, each below vocab_size; may be empty
  std::optional<int32_t> bos_id;
  std::vector<std::string> unknown_fields;  // fields of config.json that nobody here knows: to be logged once

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Reads config.json and, where there is one, generation_config.json (texts, not paths).
/// Errors: kUnsupported for a model type or a value that the code cannot honour, kCorrupt for everything else;
/// `param` is the field ("hidden_size", "generation_config.eos_token_id"). Takes any bytes without harm.
Result<ModelConfig> parse_model_config(std::string_view config_json,
                                       std::optional<std::string_view> generation_config_json = std::nullopt);

}  // namespace krait
