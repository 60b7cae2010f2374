#include "common/model/mamba2_parts.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "common/base/limits.h"

namespace krait {
namespace {

/// The tensors of a Mamba-2 mixer along its packed axes. in_proj holds [z; x; B; C; dt], conv1d holds [x; B; C].
class Mamba2Parts final {
 public:
  explicit Mamba2Parts(const MixerConfig& mixer)
      : inner_(mixer.inner_size),
        shared_(mixer.groups * mixer.state_size),
        heads_(mixer.heads),
        channels_{.kind = Segment::Kind::kCut,
                  .unit = Unit::kHead,
                  .count = mixer.heads,
                  .width = mixer.inner_size / mixer.heads},
        groups_{.kind = Segment::Kind::kCover, .unit = Unit::kHead, .count = mixer.groups, .width = mixer.state_size} {}

  /// Views of one stored tensor, whose further axes are `rest`.
  void add_in_proj(BlockPlan& block, const std::string& mixer, const std::string& kind, const Shape& rest) const {
    const int64_t rows = 2 * inner_ + 2 * shared_ + heads_;
    const std::string stored = mixer + "in_proj." + kind;
    add(block, "in_proj_z." + kind, stored, inner_, rest, {rows, 0}, channels_);
    add(block, "in_proj_x." + kind, stored, inner_, rest, {rows, inner_}, channels_);
    add(block, "in_proj_b." + kind, stored, shared_, rest, {rows, 2 * inner_}, groups_);
    add(block, "in_proj_c." + kind, stored, shared_, rest, {rows, 2 * inner_ + shared_}, groups_);
    add(block, "in_proj_dt." + kind, stored, heads_, rest, {rows, 2 * inner_ + 2 * shared_}, by_head());
    if (kind != "weight") return;
    // B, C and dt have few rows, and a whole state lives by them.
    for (TensorSpec& part : std::span(block.tensors).last(5))
      part.packing = Packing::kFineMatrix;
    for (TensorSpec& part : std::span(block.tensors).last(5).first(2))
      part.packing = Packing::kMatrix;
  }
  void add_conv1d(BlockPlan& block, const std::string& mixer, const std::string& kind, const Shape& rest) const {
    const int64_t rows = inner_ + 2 * shared_;
    const std::string stored = mixer + "conv1d." + kind;
    add(block, "conv1d_x." + kind, stored, inner_, rest, {rows, 0}, channels_);
    add(block, "conv1d_b." + kind, stored, shared_, rest, {rows, inner_}, groups_);
    add(block, "conv1d_c." + kind, stored, shared_, rest, {rows, inner_ + shared_}, groups_);
  }
  Segment by_head() const { return {.kind = Segment::Kind::kCut, .unit = Unit::kHead, .count = heads_}; }
  const Segment& channels() const { return channels_; }

 private:
  static void add(BlockPlan& block, const std::string& role, const std::string& stored, int64_t count,
                  const Shape& rest, const RowView& rows, const Segment& segment) {
    Shape shape{count};
    shape.insert(shape.end(), rest.begin(), rest.end());
    block.tensors.push_back(row_view(role, stored, std::move(shape), rows, {.axis = 0, .segments = {segment}}));
  }

  int64_t inner_, shared_, heads_;
  Segment channels_, groups_;
};

}  // namespace

BlockPlan mamba2_block(const ModelConfig& config, int layer, const LayerNames& names) {
  const MixerConfig& mixer = config.mixer;
  const Mamba2Parts parts(mixer);
  BlockPlan block{.kind = BlockKind::kMamba2, .layer = layer};
  add_norm_and_out_proj(block, config, names, Unit::kHead, mixer.heads);
  parts.add_in_proj(block, names.mixer, "weight", {config.hidden_size});
  if (mixer.use_bias) parts.add_in_proj(block, names.mixer, "bias", {});
  parts.add_conv1d(block, names.mixer, "weight", {1, mixer.conv_kernel});
  if (mixer.use_conv_bias) parts.add_conv1d(block, names.mixer, "bias", {});
  for (const char* role : {"dt_bias", "A_log", "D"}) {
    block.tensors.push_back({.role = role,
                             .name = names.mixer + role,
                             .shape = {mixer.heads},
                             .cut = {.axis = 0, .segments = {parts.by_head()}}});
  }
  block.tensors.push_back({.role = "gate_norm.weight",
                           .name = names.mixer + "norm.weight",
                           .shape = {mixer.inner_size},
                           .cut = {.axis = 0, .segments = {parts.channels()}}});
  return block;
}

void set_head_units(ModelConfig& config) {
  config.unit(Unit::kHead) = {.count = config.mixer.heads,
                              .block = 1,
                              .width = config.mixer.inner_size / config.mixer.heads,
                              .parts = config.mixer.groups};
}

void check_mamba2_sizes(ConfigReader& reader, const ModelConfig& config, std::string_view heads_field,
                        std::string_view groups_field) {
  const MixerConfig& mixer = config.mixer;
  if (mixer.inner_size > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, heads_field,
                fmt::format("makes {} inner channels, more than {}", mixer.inner_size, limits::kMaxHidden));
  } else if (mixer.inner_size % mixer.heads != 0) {
    reader.fail(Errc::kCorrupt, heads_field,
                fmt::format("{} do not share {} inner channels evenly", mixer.heads, mixer.inner_size));
  } else if (mixer.heads % mixer.groups != 0) {
    reader.fail(Errc::kCorrupt, groups_field,
                fmt::format("{} do not share {} heads evenly", mixer.groups, mixer.heads));
  } else if (mixer.groups * mixer.state_size > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, groups_field,
                fmt::format("{} of state_size {} are more than {} channels", mixer.groups, mixer.state_size,
                            limits::kMaxHidden));
  }
}

ModelPlan make_mamba2_plan(const ModelConfig& config, const std::string& embeddings) {
  ModelPlan plan{.config = config};
  plan.blocks.push_back(embedding_block(config, embeddings));
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("backbone.layers.{}.", layer);
    plan.blocks.push_back(mamba2_block(config, layer, {prefix + "norm", prefix + "mixer."}));
  }
  add_lm_head(plan, "backbone.norm_f.weight", embeddings);
  return plan;
}

}  // namespace krait
