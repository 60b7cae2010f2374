// Zamba2 (Zyphra/Zamba2-1.2B, -2.7B, -7B; Zamba2ForCausalLM): Mamba-2 mixers and a few shared transformer blocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/limits.h"
#include "common/model/architecture.h"
#include "common/model/mamba2_parts.h"
#include "common/model/shared_transformer_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"zamba2"});

constexpr auto kHarmless = std::to_array<std::string_view>(
    {"attention_dropout", "chunk_size", "kv_channels", "num_logits_to_keep", "time_step_floor", "time_step_max",
     "use_conv_bias", "use_mamba_kernels", "use_mem_eff_path", "use_shared_mlp_adapter"});

/// Checkpoints of 2024 spell several sizes differently from transformers' own class.
void read_mixer(ConfigReader& reader, ModelConfig& config) {
  MixerConfig& mixer = config.mixer;
  mixer.state_size = reader.integer(reader.spelling({"mamba_d_state", "state_size"}), 1, limits::kMaxStateSize, 64);
  mixer.conv_kernel = reader.integer(reader.spelling({"mamba_d_conv", "conv_dimension"}), 2, limits::kMaxConvKernel, 4);
  const int64_t expand =
      reader.integer(reader.spelling({"mamba_expand", "expansion_factor"}), 1, limits::kMaxHidden, 2);
  mixer.inner_size = expand * config.hidden_size;
  mixer.groups = reader.integer("mamba_ngroups", 1, limits::kMaxHidden, 1);
  const int64_t head_dim = reader.integer("mamba_headdim", 1, limits::kMaxHidden, 64);
  mixer.heads =
      reader.integer("n_mamba_heads", 1, limits::kMaxHidden, std::max<int64_t>(1, mixer.inner_size / head_dim));
  check_mamba2_sizes(reader, config, "n_mamba_heads", "mamba_ngroups");
  if (mixer.heads * head_dim != mixer.inner_size && reader.get("mamba_headdim") != nullptr) {
    reader.fail(Errc::kCorrupt, "mamba_headdim",
                fmt::format("{} times {} heads are not {} inner channels", head_dim, mixer.heads, mixer.inner_size));
  }
  mixer.use_conv_bias = true;  // transformers builds it whatever use_conv_bias says
  mixer.gate_norm_eps = 1e-5f;
  // The whole forward of transformers clamps dt from below, its one-token form does not; the whole forward rules.
  mixer.dt_min = static_cast<float>(reader.number("time_step_min", 0, 1e6, 1e-3));
}

/// hybrid_layer_ids says again what layers_block_type says.
void check_hybrid_layers(ConfigReader& reader, const ModelConfig& config) {
  const nlohmann::json* ids = reader.get("hybrid_layer_ids");
  if (ids != nullptr && *ids != nlohmann::json(config.shared.layers))
    reader.fail(Errc::kCorrupt, "hybrid_layer_ids", "are not the hybrid layers of layers_block_type");
}

/// Adapters of q, k and v are as wide as the attention's input, so these are too.
void check_adapters(ConfigReader& reader, const ModelConfig& config) {
  const SharedTransformerConfig& shared = config.shared;
  if (!shared.attention_adapters) return;
  if (shared.kv_heads != shared.heads)
    reader.fail(Errc::kUnsupported, "num_key_value_heads",
                "is less than num_attention_heads, beside attention adapters");
  if (shared.heads * shared.head_dim != 2 * config.hidden_size)
    reader.fail(Errc::kUnsupported, "attention_head_dim",
                "times num_attention_heads is not twice hidden_size, beside attention adapters");
}

void read_shared(ConfigReader& reader, ModelConfig& config) {
  SharedTransformerConfig& shared = config.shared;
  if (!read_layer_types(reader, config)) {
    reader.fail(Errc::kCorrupt, "layers_block_type", "is missing");
  }
  read_attention(reader, config);
  shared.blocks = reader.integer("num_mem_blocks", 1, limits::kMaxLayers, 1);
  shared.mlp_size = reader.integer(reader.spelling({"intermediate_size", "ffn_hidden_size"}), 1, limits::kMaxHidden,
                                   4 * config.hidden_size);
  shared.adapter_rank = reader.integer(reader.spelling({"adapter_rank", "lora_rank"}), 1, limits::kMaxHidden, 128);
  // transformers builds the MLP's adapters whatever use_shared_mlp_adapter says; the authors' own code asked this one.
  shared.mlp_adapters = reader.boolean("use_shared_block_lora", true);
  shared.attention_adapters =
      reader.boolean(reader.spelling({"use_shared_attention_adapter", "use_shared_attention_lora"}), false);
  const double theta = read_rope_theta(reader, 1e4);
  if (reader.boolean("use_mem_rope", false)) shared.rope_theta = theta;
  if (shared.rope_theta && shared.head_dim % 2 != 0)
    reader.fail(Errc::kCorrupt, "attention_head_dim", "is odd, which rotary embeddings cannot halve");
  reader.must_agree("num_query_groups", shared.heads, "num_attention_heads");
  check_adapters(reader, config);
  check_hybrid_layers(reader, config);
  reader.must_be_empty("sliding_window");
  reader.must_be("ft_lora", false);
  reader.must_be("use_long_context", false);
  reader.must_be("add_bias_linear", false);
  reader.must_be("gated_linear_unit", true);
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_common_sizes(reader, config);
  read_mixer(reader, config);
  read_shared(reader, config);
  config.norm_eps = config.shared.norm_eps = static_cast<float>(reader.number("rms_norm_eps", 0, 1, 1e-5));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  constexpr auto kMlpActivations = std::to_array<std::string_view>({"gelu"});
  reader.must_be_word("hidden_act", kMlpActivations);
  reader.harmless(kHarmless);
  set_head_units(config);
  set_shared_units(config);
  set_vocab_units(config);
}

ModelPlan make_plan(const ModelConfig& config) {
  const SharedNames names{.block = "shared_transformer", .packed_gate_up = true};
  return make_hybrid_plan(config, names, [&](int layer, const LayerNames& layer_names) {
    return mamba2_block(config, layer, layer_names);
  });
}

}  // namespace

const Architecture kArchitecture_zamba2{
    .name = "zamba2", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
