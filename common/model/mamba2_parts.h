// What families with Mamba-2 mixers share. Inside common/model only.
#pragma once

#include <string>
#include <string_view>

#include "common/model/config_reader.h"
#include "common/model/plan_parts.h"

namespace krait {

/// Units of a Mamba-2 mixer: heads, in `groups` parts.
void set_head_units(ModelConfig& config);

/// Refuses heads, groups and states that do not fit each other; the fields stand in messages.
void check_mamba2_sizes(ConfigReader& reader, const ModelConfig& config, std::string_view heads_field,
                        std::string_view groups_field);

/// The mixer of one layer, as Mamba2ForCausalLM and Zamba2ForCausalLM store it: in_proj holds [z; x; B; C; dt], conv1d
/// [x; B; C].
BlockPlan mamba2_block(const ModelConfig& config, int layer, const LayerNames& names);

/// The plan of a model of Mamba-2 mixers alone, whose embeddings are stored by that name.
ModelPlan make_mamba2_plan(const ModelConfig& config, const std::string& embeddings);

}  // namespace krait
