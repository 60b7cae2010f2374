#include "common/model/mamba1_parts.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait {
namespace {

constexpr int64_t kChannelBlock = 16;  // channels that one vector of a kernel holds

// Initialization, training and implementation choices: they leave no trace in the forward pass.
constexpr auto kHarmless =
    std::to_array<std::string_view>({"fused_add_norm", "pad_vocab_size_multiple", "rescale_prenorm_residual",
                                     "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
                                     "time_step_scale", "use_associative_scan", "use_mambapy"});

void read_sizes(ConfigReader& reader, ModelConfig& config) {
  read_common_sizes(reader, config);
  config.mixer.state_size = reader.integer("state_size", 1, limits::kMaxStateSize, 16);
  config.mixer.conv_kernel = reader.integer("conv_kernel", 2, limits::kMaxConvKernel, 4);
  // expand is only how the trainer arrived at intermediate_size; where both stand, they may differ and the latter
  // holds.
  const int64_t expand = reader.integer("expand", 1, limits::kMaxHidden, 2);
  config.mixer.inner_size = reader.integer("intermediate_size", 1, limits::kMaxHidden, expand * config.hidden_size);
  if (config.mixer.inner_size > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, "expand",
                fmt::format("makes {} inner channels of {} hidden ones, more than {}", config.mixer.inner_size,
                            config.hidden_size, limits::kMaxHidden));
  }
  config.mixer.dt_rank = read_dt_rank(reader, "time_step_rank", config.hidden_size);
  reader.must_agree("d_model", config.hidden_size, "hidden_size");
  reader.must_agree("n_layer", config.layers, "num_hidden_layers");
  reader.must_agree("d_inner", config.mixer.inner_size, "intermediate_size");
}

/// x, z and conv1d: one channel a row.
void add_channel_rows(BlockPlan& block, const ModelConfig& config, const LayerNames& names,
                      const Mamba1Layout& layout) {
  const MixerConfig& mixer = config.mixer;
  const int64_t inner = mixer.inner_size;
  const Cut rows = cut_by(Unit::kChannel, 0, inner);
  const RowView x{.stored_rows = 2 * inner, .first_row = 0, .row_step = layout.interleaved ? 2 : 1};
  const RowView z{.stored_rows = 2 * inner, .first_row = layout.interleaved ? 1 : inner, .row_step = x.row_step};
  const auto add_halves = [&](const std::string& kind, const Shape& shape) {
    block.tensors.push_back(row_view("in_proj_x." + kind, names.mixer + "in_proj." + kind, shape, x, rows));
    block.tensors.push_back(row_view("in_proj_z." + kind, names.mixer + "in_proj." + kind, shape, z, rows));
  };
  const auto add = [&](const std::string& role, const Shape& shape) {
    block.tensors.push_back({.role = role, .name = names.mixer + role, .shape = shape, .cut = rows});
  };
  add_halves("weight", {inner, config.hidden_size});
  for (TensorSpec& half : std::span(block.tensors).last(2))
    half.packing = Packing::kMatrix;
  if (mixer.use_bias) add_halves("bias", {inner});
  add("conv1d.weight", {inner, 1, mixer.conv_kernel});
  if (mixer.use_conv_bias) add("conv1d.bias", {inner});
}

/// x_proj, dt_proj, A_log and D: one piece a head where the family stores them so.
void add_head_rows(BlockPlan& block, const ModelConfig& config, const LayerNames& names, const Mamba1Layout& layout) {
  const MixerConfig& mixer = config.mixer;
  const int64_t inner = mixer.inner_size;
  const int64_t head = inner / mixer.heads;
  const int64_t width = mixer.dt_rank + 2 * mixer.state_size;
  for (int64_t j = 0; j < mixer.heads; ++j) {
    const Segment columns{.kind = Segment::Kind::kCut, .unit = Unit::kChannel, .count = head, .first = j * head};
    TensorSpec spec{.role = fmt::format("x_proj.{}.weight", j),
                    .name = names.mixer + layout.x_proj_weight,
                    .shape = {width, head},
                    .cut = {.axis = 1, .segments = {columns}},
                    .packing = Packing::kFineMatrix};
    if (layout.head_axis) spec.view = {.stored_shape = {mixer.heads, width, head}, .first_element = j * width * head};
    block.tensors.push_back(std::move(spec));
  }
  const auto add = [&](const std::string& role, const std::string& name, const Shape& rest) {
    Shape shape{inner};
    shape.insert(shape.end(), rest.begin(), rest.end());
    Shape stored{mixer.heads, head};
    stored.insert(stored.end(), rest.begin(), rest.end());
    TensorSpec spec{.role = role, .name = names.mixer + name, .shape = shape, .cut = cut_by(Unit::kChannel, 0, inner)};
    if (layout.head_axis) spec.view.stored_shape = std::move(stored);
    block.tensors.push_back(std::move(spec));
  };
  add("dt_proj.weight", layout.dt_proj_weight, {mixer.dt_rank});
  block.tensors.back().packing = Packing::kFineMatrix;
  add("dt_proj.bias", layout.dt_proj_bias, {});
  add("A_log", "A_log", {mixer.state_size});
  add("D", "D", {});
}

}  // namespace

void set_channel_units(ModelConfig& config) {
  config.unit(Unit::kChannel) = {
      .count = config.mixer.inner_size, .block = kChannelBlock, .width = 1, .parts = config.mixer.heads};
}

int64_t read_dt_rank(ConfigReader& reader, std::string_view field, int64_t hidden_size) {
  const int64_t automatic = ceil_div(hidden_size, 16);
  return reader.is_word(field, "auto") ? automatic : reader.integer(field, 1, limits::kMaxHidden, automatic);
}

void read_mamba1_config(ConfigReader& reader, ModelConfig& config) {
  read_sizes(reader, config);
  config.norm_eps = static_cast<float>(reader.number("layer_norm_epsilon", 0, 1, 1e-5));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  config.mixer.use_bias = reader.boolean("use_bias", false);
  config.mixer.use_conv_bias = reader.boolean("use_conv_bias", true);
  constexpr auto kActivations = std::to_array<std::string_view>({"silu", "swish"});
  reader.must_be_word("hidden_act", kActivations);
  reader.must_be("residual_in_fp32", true);
  reader.must_be("rms_norm", true);
  reader.must_be_empty("ssm_cfg");
  reader.must_be_empty("attn_layer_idx");
  reader.must_be_empty("attn_cfg");
  reader.harmless(kHarmless);
  set_channel_units(config);
  set_vocab_units(config);
}

BlockPlan mamba1_block(const ModelConfig& config, int layer, const LayerNames& names, const Mamba1Layout& layout) {
  BlockPlan block{.kind = BlockKind::kMamba, .layer = layer};
  add_norm_and_out_proj(block, config, names, Unit::kChannel, config.mixer.inner_size);
  add_channel_rows(block, config, names, layout);
  add_head_rows(block, config, names, layout);
  return block;
}

ModelPlan make_mamba1_plan(const ModelConfig& config) {
  return make_mamba1_plan(config, "backbone.embeddings.weight");
}

ModelPlan make_mamba1_plan(const ModelConfig& config, const std::string& embeddings) {
  ModelPlan plan{.config = config};
  plan.blocks.push_back(embedding_block(config, embeddings));
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("backbone.layers.{}.", layer);
    plan.blocks.push_back(mamba1_block(config, layer, {prefix + "norm", prefix + "mixer."}, {}));
  }
  add_lm_head(plan, "backbone.norm_f.weight", embeddings);
  return plan;
}

}  // namespace krait
