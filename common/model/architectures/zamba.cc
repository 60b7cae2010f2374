// Zamba (Zyphra/Zamba-7B-v1; ZambaForCausalLM): Mamba-1 mixers of several heads and one shared transformer block.
#include <fmt/format.h>

#include <array>

#include "common/base/limits.h"
#include "common/model/architecture.h"
#include "common/model/mamba1_parts.h"
#include "common/model/shared_transformer_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"zamba"});

constexpr auto kHarmless =
    std::to_array<std::string_view>({"attention_dropout", "num_logits_to_keep", "time_step_floor", "time_step_max",
                                     "time_step_min", "use_associative_scan", "use_mamba_kernels"});

void read_mixer(ConfigReader& reader, ModelConfig& config) {
  MixerConfig& mixer = config.mixer;
  mixer.state_size = reader.integer("mamba_d_state", 1, limits::kMaxStateSize, 16);
  mixer.conv_kernel = reader.integer("mamba_d_conv", 2, limits::kMaxConvKernel, 4);
  mixer.dt_rank = read_dt_rank(reader, "mamba_dt_rank", config.hidden_size);
  mixer.heads = reader.integer("n_mamba_heads", 1, limits::kMaxMixerHeads, 2);
  mixer.inner_size = reader.integer("mamba_expand", 1, limits::kMaxHidden, 2) * config.hidden_size;
  if (mixer.inner_size > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, "mamba_expand",
                fmt::format("makes {} inner channels, more than {}", mixer.inner_size, limits::kMaxHidden));
  } else if (mixer.inner_size % mixer.heads != 0) {
    reader.fail(Errc::kCorrupt, "n_mamba_heads",
                fmt::format("{} do not share {} inner channels evenly", mixer.heads, mixer.inner_size));
  }
  mixer.use_bias = reader.boolean("mamba_proj_bias", false);
  mixer.use_conv_bias = reader.boolean("mamba_conv_bias", true);
  constexpr auto kActivations = std::to_array<std::string_view>({"silu", "swish"});
  reader.must_be_word("hidden_mamba_act", kActivations);
}

/// Where no list of types is given: layer 2, then every `period`-th, counted from layer 3.
void layers_by_period(ConfigReader& reader, ModelConfig& config) {
  const int64_t period = reader.integer("attn_layer_period", 1, limits::kMaxLayers, 6);
  const int64_t offset = reader.integer("attn_layer_offset", 0, limits::kMaxLayers, 4);
  const bool listed = read_layer_types(reader, config);
  if (listed) return;
  for (int64_t layer = 2; layer < config.layers; ++layer) {
    if (layer == 2 || (layer - 3) % period == offset) config.shared.layers.push_back(static_cast<int32_t>(layer));
  }
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_common_sizes(reader, config);
  read_mixer(reader, config);
  layers_by_period(reader, config);
  read_attention(reader, config);
  config.norm_eps = config.shared.norm_eps = static_cast<float>(reader.number("rms_norm_eps", 0, 1, 1e-5));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  config.shared.mlp_size = reader.integer("intermediate_size", 1, limits::kMaxHidden, 14848);
  constexpr auto kMlpActivations = std::to_array<std::string_view>({"gelu"});
  reader.must_be_word("hidden_act", kMlpActivations);
  reader.must_be_empty("sliding_window");
  reader.harmless(kHarmless);
  set_channel_units(config);
  set_shared_units(config);
  set_vocab_units(config);
}

ModelPlan make_plan(const ModelConfig& config) {
  const Mamba1Layout layout{.interleaved = true,
                            .head_axis = true,
                            .x_proj_weight = "x_proj_weight",
                            .dt_proj_weight = "dt_proj_weight",
                            .dt_proj_bias = "dt_proj_bias"};
  return make_hybrid_plan(config, {.block = "shared_transf"}, [&](int layer, const LayerNames& names) {
    return mamba1_block(config, layer, names, layout);
  });
}

}  // namespace

const Architecture kArchitecture_zamba{
    .name = "zamba", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
