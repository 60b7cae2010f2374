#include "common/model/shared_transformer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/limits.h"

namespace krait {
namespace {

constexpr int64_t kMlpBlock = 16;  // channels that stay together where ranges are not equal

/// The tensors of one use of a shared block.
class SharedUse final {
 public:
  SharedUse(ModelPlan& plan, int index, const SharedNames& names)
      : plan_(plan),
        shared_(plan.config.shared),
        hidden_(plan.config.hidden_size),
        index_(index),
        layer_(shared_.layers[static_cast<size_t>(index)]),
        own_(prefix(index, names)),
        stored_(prefix(index % static_cast<int>(shared_.blocks), names)) {}

  void add_attention() {
    const int64_t head = shared_.head_dim;
    const Cut query{.axis = 0, .segments = {{.unit = Unit::kAttentionHead, .count = shared_.heads, .width = head}}};
    const Cut key{
        .axis = 0,
        .segments = {
            {.kind = Segment::Kind::kCover, .unit = Unit::kAttentionHead, .count = shared_.kv_heads, .width = head}}};
    BlockPlan block{.kind = BlockKind::kSharedAttention, .layer = layer_};
    add(block, "norm.weight", "input_layernorm.weight", {2 * hidden_}, {});
    add_projection(block, 'q', shared_.heads * head, query);
    add_projection(block, 'k', shared_.kv_heads * head, key);
    add_projection(block, 'v', shared_.kv_heads * head, key);
    Cut columns = query;
    columns.axis = 1;
    add(block, "o_proj.weight", "self_attn.o_proj.weight", {hidden_, shared_.heads * head}, columns);
    plan_.blocks.push_back(std::move(block));
  }

  void add_mlp(bool packed) {
    const int64_t inner = shared_.mlp_size;
    const Cut rows = cut_by(Unit::kMlp, 0, inner);
    BlockPlan block{.kind = BlockKind::kSharedMlp, .layer = layer_};
    add(block, "norm.weight", "pre_ff_layernorm.weight", {hidden_}, {});
    const std::array<std::string, 2> halves{"gate", "up"};
    for (int64_t half = 0; half < 2; ++half) {
      const std::string& name = halves[static_cast<size_t>(half)];
      const RowView view{.stored_rows = 2 * inner, .first_row = half * inner};
      if (packed) {
        add_view(block, name + "_proj.weight", "feed_forward.gate_up_proj.weight", {inner, hidden_}, view, rows);
      } else {
        add(block, name + "_proj.weight", fmt::format("feed_forward.{}_proj.weight", name), {inner, hidden_}, rows);
      }
      if (!shared_.mlp_adapters) continue;
      add_own(block, row_view(name + "_adapter_b.weight", "", {inner, shared_.adapter_rank}, view, rows),
              "feed_forward.gate_up_proj_adapter_list.{}.1.weight");
    }
    if (shared_.mlp_adapters) {
      add_own(block, {.role = "adapter_a.weight", .shape = {shared_.adapter_rank, hidden_}},
              "feed_forward.gate_up_proj_adapter_list.{}.0.weight");
    }
    add(block, "down_proj.weight", "feed_forward.down_proj.weight", {hidden_, inner}, cut_by(Unit::kMlp, 1, inner));
    block.tensors.push_back({.role = "linear.weight",
                             .name = fmt::format("model.layers.{}.linear.weight", layer_),
                             .shape = {hidden_, hidden_},
                             .packing = Packing::kMatrix});
    plan_.blocks.push_back(std::move(block));
  }

 private:
  std::string prefix(int index, const SharedNames& names) const {
    return fmt::format("model.layers.{}.{}.", shared_.layers[static_cast<size_t>(index)], names.block);
  }
  void add_spec(BlockPlan& block, TensorSpec spec, const std::string& name) const {
    spec.name = own_ + name;
    // All but the norms are matrices.
    spec.packing = spec.shape.size() == 2 ? Packing::kMatrix : Packing::kNone;
    spec.shared = static_cast<int64_t>(shared_.layers.size()) > shared_.blocks;
    if (stored_ != own_) {
      spec.source = stored_ + name;
      plan_.harmless_tensors.push_back(spec.name);
    }
    block.tensors.push_back(std::move(spec));
  }
  /// What each layer has for itself, in a list of the block that it shares: `{}` in the name is the layer's place
  /// there.
  void add_own(BlockPlan& block, TensorSpec spec, const std::string& name) const {
    add_spec(block, std::move(spec), fmt::format(fmt::runtime(name), index_));
    block.tensors.back().shared = false;
    // Whoever stores the block again under this layer stores the whole list.
    for (int64_t j = index_ % shared_.blocks; stored_ != own_ && std::cmp_less(j, shared_.layers.size());
         j += shared_.blocks)
      plan_.harmless_tensors.push_back(own_ + fmt::format(fmt::runtime(name), j));
  }
  void add(BlockPlan& block, const std::string& role, const std::string& name, Shape shape, Cut cut) const {
    add_spec(block, {.role = role, .shape = std::move(shape), .cut = std::move(cut)}, name);
  }
  void add_view(BlockPlan& block, const std::string& role, const std::string& name, Shape shape, const RowView& view,
                const Cut& cut) const {
    add_spec(block, row_view(role, "", std::move(shape), view, cut), name);
  }
  void add_projection(BlockPlan& block, char which, int64_t rows, const Cut& cut) const {
    add(block, fmt::format("{}_proj.weight", which), fmt::format("self_attn.{}_proj.weight", which),
        {rows, 2 * hidden_}, cut);
    if (!shared_.attention_adapters) return;
    const std::string list = fmt::format("self_attn.linear_{}_adapter_list.", which);
    add_own(block, {.role = fmt::format("{}_adapter_a.weight", which), .shape = {shared_.adapter_rank, 2 * hidden_}},
            list + "{}.0.weight");
    add_own(block,
            {.role = fmt::format("{}_adapter_b.weight", which), .shape = {rows, shared_.adapter_rank}, .cut = cut},
            list + "{}.1.weight");
  }

  ModelPlan& plan_;
  const SharedTransformerConfig& shared_;
  const int64_t hidden_;
  const int index_;
  const int layer_;
  const std::string own_;     // under this layer
  const std::string stored_;  // under the first layer that runs the same block
};

}  // namespace

bool read_layer_types(ConfigReader& reader, ModelConfig& config) {
  const std::string_view field = reader.spelling({"layers_block_type", "layer_types"});
  const nlohmann::json* types = reader.get(field);
  if (types == nullptr) return false;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) {
    reader.fail(Errc::kCorrupt, field, fmt::format("is no list of {} types", config.layers));
    return true;
  }
  for (size_t layer = 0; layer < types->size(); ++layer) {
    const nlohmann::json& type = (*types)[layer];
    const std::string name = type.is_string() ? type.get<std::string>() : "";
    if (name == "hybrid" || name == "g") {
      config.shared.layers.push_back(static_cast<int32_t>(layer));
    } else if (name != "mamba" && name != "linear_attention" && name != "m") {
      reader.fail(Errc::kUnsupported, field,
                  fmt::format("has '{:.32}' at {}; mamba and hybrid are supported", name, layer));
      return true;
    }
  }
  return true;
}

void read_attention(ConfigReader& reader, ModelConfig& config) {
  SharedTransformerConfig& shared = config.shared;
  const int64_t width = 2 * config.hidden_size;
  shared.heads = reader.integer("num_attention_heads", 1, limits::kMaxHidden);
  shared.kv_heads = reader.integer("num_key_value_heads", 1, limits::kMaxHidden, shared.heads);
  shared.head_dim = reader.integer(reader.spelling({"attention_head_dim", "head_dim"}), 1, limits::kMaxHidden,
                                   std::max<int64_t>(1, width / shared.heads));
  reader.must_agree("attention_hidden_size", width, "twice hidden_size");
  if (shared.heads % shared.kv_heads != 0) {
    reader.fail(Errc::kCorrupt, "num_key_value_heads",
                fmt::format("{} do not share {} heads evenly", shared.kv_heads, shared.heads));
  } else if (shared.heads * shared.head_dim > limits::kMaxHidden) {
    reader.fail(Errc::kCorrupt, "num_attention_heads",
                fmt::format("{} of {} are more than {} columns", shared.heads, shared.head_dim, limits::kMaxHidden));
  }
  shared.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shared.head_dim) / 2));
}

double read_rope_theta(ConfigReader& reader, double fallback) {
  constexpr double kMaxTheta = 1e12;
  reader.must_be_empty("rope_scaling");
  const double theta = reader.number("rope_theta", 1, kMaxTheta, fallback);
  const nlohmann::json* parameters = reader.get("rope_parameters");
  if (parameters == nullptr) return theta;
  if (!parameters->is_object()) {
    reader.fail(Errc::kCorrupt, "rope_parameters", "is no object");
    return theta;
  }
  ConfigReader inner(*parameters, "config.json: rope_parameters");
  constexpr auto kTypes = std::to_array<std::string_view>({"default"});
  inner.must_be_word("rope_type", kTypes);
  const double found = inner.number("rope_theta", 1, kMaxTheta, theta);
  for (const std::string& field : inner.unknown_fields())
    inner.fail(Errc::kUnsupported, field, "is not supported");
  reader.take_fault("rope_parameters", inner);
  return found;
}

void set_shared_units(ModelConfig& config) {
  const SharedTransformerConfig& shared = config.shared;
  if (shared.layers.empty()) return;
  config.unit(Unit::kAttentionHead) = {.count = shared.heads, .block = 1, .width = shared.head_dim};
  config.unit(Unit::kMlp) = {.count = shared.mlp_size, .block = kMlpBlock, .width = 1};
}

ModelPlan make_hybrid_plan(const ModelConfig& config, const SharedNames& names, const MakeMixer& make_mixer) {
  const std::string embeddings = "model.embed_tokens.weight";
  ModelPlan plan{.config = config};
  plan.blocks.push_back(embedding_block(config, embeddings));
  const auto& hybrids = config.shared.layers;
  size_t next = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool hybrid = next < hybrids.size() && hybrids[next] == layer;
    if (hybrid) {
      SharedUse use(plan, static_cast<int>(next++), names);
      use.add_attention();
      use.add_mlp(names.packed_gate_up);
    }
    const std::string prefix = fmt::format("model.layers.{}.{}", layer, hybrid ? "mamba_decoder." : "");
    BlockPlan mixer = make_mixer(layer, {prefix + "input_layernorm", prefix + "mamba."});
    mixer.follows_shared = hybrid;
    plan.blocks.push_back(std::move(mixer));
  }
  add_lm_head(plan, "model.final_layernorm.weight", embeddings);
  return plan;
}

}  // namespace krait
