// Mamba and Mamba-2 as their authors publish them (state-spaces/mamba-*, mamba2-*): a config without a model_type,
// sizes of the mixer in ssm_cfg, the vocabulary padded on the way into the tensors.
#include <fmt/format.h>

#include <array>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/model/architecture.h"
#include "common/model/mamba1_parts.h"
#include "common/model/mamba2_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({kStateSpacesType});

// Initialization and implementation choices of the mixer.
constexpr auto kHarmlessMixer =
    std::to_array<std::string_view>({"A_init_range", "chunk_size", "dt_init", "dt_init_floor", "dt_max", "dt_min",
                                     "dt_scale", "use_fast_path", "use_mem_eff_path"});

void read_mixer(ConfigReader& ssm, ModelConfig& config) {
  MixerConfig& mixer = config.mixer;
  constexpr auto kLayers = std::to_array<std::string_view>({"Mamba1", "Mamba2"});
  ssm.must_be_word("layer", kLayers);
  const bool second = ssm.is_word("layer", "Mamba2");
  mixer.state_size = ssm.integer("d_state", 1, limits::kMaxStateSize, second ? 128 : 16);
  mixer.conv_kernel = ssm.integer("d_conv", 2, limits::kMaxConvKernel, 4);
  mixer.inner_size = ssm.integer("expand", 1, limits::kMaxHidden, 2) * config.hidden_size;
  mixer.use_bias = ssm.boolean("bias", false);
  mixer.use_conv_bias = ssm.boolean("conv_bias", true);
  ssm.harmless(kHarmlessMixer);
  if (second) {
    const int64_t head_dim = ssm.integer("headdim", 1, limits::kMaxHidden, 64);
    mixer.heads = std::max<int64_t>(1, mixer.inner_size / head_dim);
    mixer.groups = ssm.integer("ngroups", 1, limits::kMaxHidden, 1);
    mixer.gate_norm_eps = 1e-5f;
    ssm.must_be("rmsnorm", true);
    ssm.must_be("norm_before_gate", false);
    check_mamba2_sizes(ssm, config, "headdim", "ngroups");
    if (mixer.heads * head_dim != mixer.inner_size)
      ssm.fail(Errc::kCorrupt, "headdim",
               fmt::format("{} does not divide {} inner channels", head_dim, mixer.inner_size));
    return;
  }
  mixer.dt_rank = read_dt_rank(ssm, "dt_rank", config.hidden_size);
  if (mixer.inner_size > limits::kMaxHidden)
    ssm.fail(Errc::kCorrupt, "expand",
             fmt::format("makes {} inner channels, more than {}", mixer.inner_size, limits::kMaxHidden));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.hidden_size = reader.integer("d_model", 1, limits::kMaxHidden);
  config.layers = reader.integer("n_layer", 1, limits::kMaxLayers);
  const int64_t tokens = reader.integer("vocab_size", 1, limits::kMaxVocab);
  const int64_t multiple = reader.integer("pad_vocab_size_multiple", 1, limits::kMaxVocab, 8);
  config.vocab_size = round_up(tokens, multiple);
  if (config.vocab_size > limits::kMaxVocab)
    reader.fail(Errc::kCorrupt, "vocab_size",
                fmt::format("is padded to {}, more than {}", config.vocab_size, limits::kMaxVocab));
  config.norm_eps = 1e-5f;
  config.tie_word_embeddings = reader.boolean("tie_embeddings", true);
  reader.must_be("rms_norm", true);
  reader.must_be("residual_in_fp32", true);
  reader.must_be_empty("attn_layer_idx");
  reader.must_be_empty("attn_cfg");
  if (reader.integer("d_intermediate", 0, limits::kMaxHidden, 0) != 0)
    reader.fail(Errc::kUnsupported, "d_intermediate", "asks for MLPs, which are not supported here");
  reader.harmless(std::to_array<std::string_view>({"fused_add_norm"}));
  const nlohmann::json empty = nlohmann::json::object();
  const nlohmann::json* found = reader.get("ssm_cfg");
  if (found != nullptr && !found->is_object()) {
    reader.fail(Errc::kCorrupt, "ssm_cfg", "is no object");
    return;
  }
  ConfigReader ssm(found == nullptr ? empty : *found, "config.json: ssm_cfg");
  read_mixer(ssm, config);
  for (const std::string& field : ssm.unknown_fields())
    ssm.fail(Errc::kUnsupported, field, "is not supported");
  if (const Status status = ssm.status(); !status.ok())
    reader.fail(status.error().code, "ssm_cfg", status.error().message);
  if (config.mixer.dt_rank > 0) {
    set_channel_units(config);
  } else {
    set_head_units(config);
  }
  set_vocab_units(config);
}

ModelPlan make_plan(const ModelConfig& config) {
  const std::string embeddings = "backbone.embedding.weight";
  return config.mixer.dt_rank > 0 ? make_mamba1_plan(config, embeddings) : make_mamba2_plan(config, embeddings);
}

}  // namespace

const Architecture kArchitecture_state_spaces{
    .name = "state_spaces", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
