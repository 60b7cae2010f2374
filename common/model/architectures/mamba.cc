// Mamba-1 as Hugging Face publishes it (state-spaces/mamba-*-hf, MambaForCausalLM).
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/model/architecture.h"
#include "common/model/config_reader.h"

namespace krait {
namespace {

constexpr auto kModelTypes = std::to_array<std::string_view>({"mamba"});

// Initialization, training and implementation choices: they leave no trace in the forward pass.
constexpr auto kHarmless =
    std::to_array<std::string_view>({"fused_add_norm", "pad_vocab_size_multiple", "rescale_prenorm_residual",
                                     "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
                                     "time_step_scale", "use_associative_scan", "use_mambapy"});

void read_sizes(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.integer("vocab_size", 1, limits::kMaxVocab);
  config.hidden_size = reader.integer("hidden_size", 1, limits::kMaxHidden);
  config.layers = reader.integer("num_hidden_layers", 1, limits::kMaxLayers);
  config.state_size = reader.integer("state_size", 1, limits::kMaxStateSize, 16);
  config.conv_kernel = reader.integer("conv_kernel", 2, limits::kMaxConvKernel, 4);
  // expand is only how the trainer arrived at intermediate_size; where both stand, they may differ and the latter
  // holds.
  const int64_t expand = reader.integer("expand", 1, limits::kMaxHidden, 2);
  config.inner_size = reader.integer("intermediate_size", 1, limits::kMaxHidden, expand * config.hidden_size);
  if (config.inner_size > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, "expand",
                fmt::format("makes {} inner channels of {} hidden ones, more than {}", config.inner_size,
                            config.hidden_size, limits::kMaxHidden));
  }
  const int64_t automatic_rank = ceil_div(config.hidden_size, 16);
  config.dt_rank = reader.is_word("time_step_rank", "auto")
                       ? automatic_rank
                       : reader.integer("time_step_rank", 1, limits::kMaxHidden, automatic_rank);
  reader.must_agree("d_model", config.hidden_size, "hidden_size");
  reader.must_agree("n_layer", config.layers, "num_hidden_layers");
  reader.must_agree("d_inner", config.inner_size, "intermediate_size");
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_sizes(reader, config);
  config.norm_eps = static_cast<float>(reader.number("layer_norm_epsilon", 0, 1, 1e-5));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  config.use_bias = reader.boolean("use_bias", false);
  config.use_conv_bias = reader.boolean("use_conv_bias", true);
  constexpr auto kActivations = std::to_array<std::string_view>({"silu", "swish"});
  reader.must_be_word("hidden_act", kActivations);
  reader.must_be("residual_in_fp32", true);
  reader.must_be("rms_norm", true);
  reader.must_be_empty("ssm_cfg");
  reader.must_be_empty("attn_layer_idx");
  reader.must_be_empty("attn_cfg");
  reader.harmless(kHarmless);
}

BlockPlan mamba_block(const ModelConfig& config, int layer) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.inner_size;
  const int64_t state = config.state_size;
  const int64_t rank = config.dt_rank;
  const Segment channels{.kind = Segment::Kind::kCut, .unit = Unit::kChannel, .count = inner};
  const Cut halves{.axis = 0, .segments = {channels, channels}};  // [x; z], each half cut for itself
  const Cut rows = cut_by(Unit::kChannel, 0, inner);
  const Cut columns = cut_by(Unit::kChannel, 1, inner);

  BlockPlan block{.kind = BlockKind::kMamba, .layer = layer};
  const std::string prefix = fmt::format("backbone.layers.{}.", layer);
  block.tensors.push_back({.role = "norm.weight", .name = prefix + "norm.weight", .shape = {hidden}});
  const auto add = [&](const std::string& role, Shape shape, Cut cut) {
    block.tensors.push_back(
        {.role = role, .name = prefix + "mixer." + role, .shape = std::move(shape), .cut = std::move(cut)});
  };
  add("in_proj.weight", {2 * inner, hidden}, halves);
  if (config.use_bias) add("in_proj.bias", {2 * inner}, halves);
  add("conv1d.weight", {inner, 1, config.conv_kernel}, rows);
  if (config.use_conv_bias) add("conv1d.bias", {inner}, rows);
  add("x_proj.weight", {rank + 2 * state, inner}, columns);
  add("dt_proj.weight", {inner, rank}, rows);
  add("dt_proj.bias", {inner}, rows);
  add("A_log", {inner, state}, rows);
  add("D", {inner}, rows);
  add("out_proj.weight", {hidden, inner}, columns);
  if (config.use_bias) add("out_proj.bias", {hidden}, whole_cut());
  return block;
}

ModelPlan make_plan(const ModelConfig& config) {
  const Shape table{config.vocab_size, config.hidden_size};
  const std::string embeddings = "backbone.embeddings.weight";
  ModelPlan plan{.config = config};
  plan.blocks.push_back(
      {.kind = BlockKind::kEmbedding, .tensors = {{.role = "embedding.weight", .name = embeddings, .shape = table}}});
  for (int layer = 0; layer < config.layers; ++layer)
    plan.blocks.push_back(mamba_block(config, layer));
  BlockPlan head{.kind = BlockKind::kLmHead};
  head.tensors.push_back({.role = "norm.weight", .name = "backbone.norm_f.weight", .shape = {config.hidden_size}});
  head.tensors.push_back({.role = "lm_head.weight",
                          .name = "lm_head.weight",
                          .shape = table,
                          .cut = cut_by(Unit::kVocab, 0, config.vocab_size),
                          .source = config.tie_word_embeddings ? embeddings : ""});
  plan.blocks.push_back(std::move(head));
  if (config.tie_word_embeddings) plan.harmless_tensors.emplace_back("lm_head.weight");
  return plan;
}

}  // namespace

const Architecture kArchitecture_mamba{
    .name = "mamba", .model_types = kModelTypes, .read_config = read_config, .make_plan = make_plan};

}  // namespace krait
