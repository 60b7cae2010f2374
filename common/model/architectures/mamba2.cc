// Mamba-2 as Hugging Face publishes it (mistralai/Mamba-Codestral-7B, state-spaces/mamba2-*; Mamba2ForCausalLM).
#include <fmt/format.h>

#include <array>

#include "common/base/limits.h"
#include "common/model/architecture.h"
#include "common/model/mamba2_parts.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"mamba2"});

// chunk_size cuts a scan into pieces that compute the same; time_step_rank is a left-over of Mamba-1.
constexpr auto kHarmless = std::to_array<std::string_view>({"chunk_size", "rescale_prenorm_residual", "time_step_floor",
                                                            "time_step_init_scheme", "time_step_max", "time_step_min",
                                                            "time_step_rank", "time_step_scale"});

void read_sizes(ConfigReader& reader, ModelConfig& config) {
  read_common_sizes(reader, config);
  MixerConfig& mixer = config.mixer;
  mixer.state_size = reader.integer("state_size", 1, limits::kMaxStateSize, 128);
  mixer.conv_kernel = reader.integer("conv_kernel", 2, limits::kMaxConvKernel, 4);
  mixer.heads = reader.integer("num_heads", 1, limits::kMaxHidden, 128);
  const int64_t head_dim = reader.integer("head_dim", 1, limits::kMaxHidden, 64);
  mixer.groups = reader.integer("n_groups", 1, limits::kMaxHidden, 8);
  mixer.inner_size = mixer.heads * head_dim;
  check_mamba2_sizes(reader, config, "num_heads", "n_groups");
  const int64_t expand = reader.integer("expand", 1, limits::kMaxHidden, 2);
  if (expand * config.hidden_size != mixer.inner_size) {
    reader.fail(Errc::kCorrupt, "expand",
                fmt::format("times hidden_size {} is not num_heads {} times head_dim {}", config.hidden_size,
                            mixer.heads, head_dim));
  }
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_sizes(reader, config);
  config.norm_eps = config.mixer.gate_norm_eps = static_cast<float>(reader.number("layer_norm_epsilon", 0, 1, 1e-5));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  config.mixer.use_bias = reader.boolean("use_bias", false);
  config.mixer.use_conv_bias = reader.boolean("use_conv_bias", true);
  const auto [low, high] = reader.interval("time_step_limit", {0, std::numeric_limits<double>::infinity()});
  config.mixer.dt_min = static_cast<float>(low);
  config.mixer.dt_max = static_cast<float>(high);
  constexpr auto kActivations = std::to_array<std::string_view>({"silu", "swish"});
  reader.must_be_word("hidden_act", kActivations);
  reader.must_be("residual_in_fp32", true);
  reader.must_be("rms_norm", true);
  reader.must_be("norm_before_gate", false);
  reader.harmless(kHarmless);
  set_head_units(config);
  set_vocab_units(config);
}

ModelPlan make_plan(const ModelConfig& config) {
  return make_mamba2_plan(config, "backbone.embeddings.weight");
}

}  // namespace

const Architecture kArchitecture_mamba2{
    .name = "mamba2", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
