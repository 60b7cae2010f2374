// What hybrids with shared transformer blocks (Zamba, Zamba2) share. Inside common/model only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/plan_parts.h"

namespace krait {

/// Reads layers_block_type (or layer_types, as transformers calls it now) into shared.layers: "hybrid" (or "g") runs a
/// shared block, "mamba", "linear_attention" (or "m") does not. False where the field is absent.
bool read_layer_types(ConfigReader& reader, ModelConfig& config);

/// heads, kv_heads and head_dim of attention over 2H columns, and the scale (head_dim / 2)^-0.5.
void read_attention(ConfigReader& reader, ModelConfig& config);

/// The base of rotary embeddings in either spelling (rope_theta, rope_parameters); a scaling of any kind is refused.
double read_rope_theta(ConfigReader& reader, double fallback);

/// Units of attention and MLP.
void set_shared_units(ModelConfig& config);

/// How a family spells the shared block's tensors.
struct SharedNames final {
  std::string_view block;       // "shared_transf"
  bool packed_gate_up = false;  // gate_proj and up_proj are the halves of one gate_up_proj
};

/// The mixer of one layer, by the names of its tensors.
using MakeMixer = std::function<BlockPlan(int layer, const LayerNames& names)>;

/// The plan of a hybrid: a mixer in every layer, and before it, in those of `shared.layers`, attention and the MLP with
/// the layer's own linear. Shared tensors are read where the first layer of the same block stores them; copies
/// elsewhere are harmless.
ModelPlan make_hybrid_plan(const ModelConfig& config, const SharedNames& names, const MakeMixer& make_mixer);

}  // namespace krait
