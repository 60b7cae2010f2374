// What architectures/NAME.cc provides: how its config.json reads and which blocks it makes. Inside common/model only.
#pragma once

#include <span>
#include <string_view>

#include "common/base/result.h"
#include "common/model/model_config.h"
#include "common/model/model_plan.h"

namespace krait {

class ConfigReader;

/// Stands for the config of a checkpoint as Mamba's authors publish it, which has no "model_type" but a "d_model".
inline constexpr std::string_view kStateSpacesType = "state-spaces";

struct Architecture final {
  std::string_view name;
  std::span<const std::string_view> model_types;  // spellings of "model_type" in config.json
  /// Fills every field of the config but architecture, dtype and token ids, and refuses what it cannot honour.
  /// Reads fields through the reader, which then knows which ones nobody asked for.
  void (*read_config)(ConfigReader& reader, ModelConfig& config);
  ModelPlan (*make_plan)(const ModelConfig& config);
};

#define ARCHITECTURE(name) extern const Architecture kArchitecture_##name;
#include "common/model/architectures.def"
#undef ARCHITECTURE

/// The rows of architectures.def.
std::span<const Architecture* const> all_architectures();

}  // namespace krait
