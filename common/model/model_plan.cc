#include "common/model/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/model/architecture.h"

namespace krait {

std::span<const Architecture* const> all_architectures() {
  // Pointers named here pull each file out of the static library: a registry of initializers would be dropped by it.
  static constexpr auto kAll = std::to_array<const Architecture*>({
#define ARCHITECTURE(name) &kArchitecture_##name,
#include "common/model/architectures.def"
#undef ARCHITECTURE
  });
  return kAll;
}

std::string_view block_kind_name(BlockKind kind) {
  switch (kind) {
    case BlockKind::kEmbedding:
      return "embedding";
    case BlockKind::kMamba:
      return "mamba";
    case BlockKind::kMamba2:
      return "mamba2";
    case BlockKind::kSharedAttention:
      return "shared_attention";
    case BlockKind::kSharedMlp:
      return "shared_mlp";
    case BlockKind::kLmHead:
      return "lm_head";
  }
  return "unknown";
}

const TensorSpec* BlockPlan::find(std::string_view role) const {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& spec) { return spec.role == role; });
  return at == tensors.end() ? nullptr : &*at;
}

Result<ModelPlan> make_model_plan(const ModelConfig& config) {
  for (const Architecture* architecture : all_architectures()) {
    if (architecture->name == config.architecture) return architecture->make_plan(config);
  }
  return Error{Errc::kUnsupported, fmt::format("no architecture is named '{}'", config.architecture), "architecture"};
}

}  // namespace krait
