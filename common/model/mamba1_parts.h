// What families with Mamba-1 mixers share. Inside common/model only.
#pragma once

#include <string>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/plan_parts.h"

namespace krait {

/// How a family packs and spells the tensors of a Mamba-1 mixer.
struct Mamba1Layout final {
  bool interleaved = false;  // rows of in_proj: x0, z0, x1, z1, ...; else [x; z]
  bool head_axis = false;    // x_proj, dt_proj, A_log and D are stored with an axis of heads before the others
  std::string x_proj_weight = "x_proj.weight";
  std::string dt_proj_weight = "dt_proj.weight";
  std::string dt_proj_bias = "dt_proj.bias";
};

/// Units of a Mamba-1 mixer: channels, in `heads` parts.
void set_channel_units(ModelConfig& config);

/// `field`, or ceil(H / 16) where it is absent or "auto".
int64_t read_dt_rank(ConfigReader& reader, std::string_view field, int64_t hidden_size);

/// The config of MambaForCausalLM, which FalconMambaForCausalLM's extends.
void read_mamba1_config(ConfigReader& reader, ModelConfig& config);

/// The mixer of one layer.
BlockPlan mamba1_block(const ModelConfig& config, int layer, const LayerNames& names, const Mamba1Layout& layout);

/// The plan of a model of Mamba-1 mixers, whose embeddings are stored by that name.
ModelPlan make_mamba1_plan(const ModelConfig& config, const std::string& embeddings);

/// The same with the name of MambaForCausalLM and FalconMambaForCausalLM.
ModelPlan make_mamba1_plan(const ModelConfig& config);

}  // namespace krait
