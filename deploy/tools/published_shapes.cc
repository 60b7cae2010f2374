#include "deploy/tools/published_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

namespace krait::tools {
namespace {

struct PublishedShape final {
  std::string_view name;
  int layers = 0;
  std::string_view config;           // fields of config.json
  std::span<const int> hybrid = {};  // layers that run a shared transformer, where the fields do not say
};

constexpr auto kZamba2Hybrid = std::to_array({6, 12, 18, 24, 30, 36, 42, 47, 51});

constexpr auto kShapes = std::to_array<PublishedShape>({
    {"mamba-130m", 24, R"("model_type": "mamba", "vocab_size": 50280, "hidden_size": 768)"},
    {"mamba-370m", 48, R"("model_type": "mamba", "vocab_size": 50280, "hidden_size": 1024)"},
    {"mamba-1.4b", 48, R"("model_type": "mamba", "vocab_size": 50280, "hidden_size": 2048)"},
    {"mamba-2.8b", 64, R"("model_type": "mamba", "vocab_size": 50280, "hidden_size": 2560)"},
    {"mamba2-2.7b", 64,
     R"("model_type": "mamba2", "vocab_size": 50288, "hidden_size": 2560, "num_heads": 80, "head_dim": 64,
        "state_size": 128, "n_groups": 1, "tie_word_embeddings": true)"},
    {"zamba2-2.7b", 54,
     R"("model_type": "zamba2", "vocab_size": 32000, "hidden_size": 2560, "mamba_d_state": 64, "mamba_headdim": 64,
        "n_mamba_heads": 80, "num_attention_heads": 32, "attention_head_dim": 160, "intermediate_size": 10240,
        "num_mem_blocks": 2, "adapter_rank": 128)",
     kZamba2Hybrid},
    {"zamba-7b", 76,
     R"("model_type": "zamba", "vocab_size": 32000, "hidden_size": 3712, "n_mamba_heads": 2,
        "num_attention_heads": 16, "attention_head_dim": 464, "intermediate_size": 14848)"},
    {"falcon-mamba-7b", 64,
     R"("model_type": "falcon_mamba", "vocab_size": 65024, "hidden_size": 4096, "intermediate_size": 8192,
        "time_step_rank": 256, "tie_word_embeddings": false)"},
});

std::string config_of(const PublishedShape& shape) {
  std::string text = fmt::format(R"({{{}, "num_hidden_layers": {})", shape.config, shape.layers);
  if (!shape.hybrid.empty()) {
    std::vector<std::string_view> types(static_cast<size_t>(shape.layers), R"("mamba")");
    for (const int layer : shape.hybrid)
      types[static_cast<size_t>(layer)] = R"("hybrid")";
    text += fmt::format(R"(, "layers_block_type": [{}])", fmt::join(types, ", "));
  }
  text += '}';
  return text;
}

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const PublishedShape& shape : kShapes)
    names.emplace_back(shape.name);
  return names;
}

Result<std::string> shape_config(std::string_view name) {
  const auto* const at = std::find_if(kShapes.begin(), kShapes.end(), [&](const auto& s) { return s.name == name; });
  if (at != kShapes.end()) return config_of(*at);
  return Error{Errc::kNotFound,
               fmt::format("nobody knows the shape '{}'; there are {}", name, fmt::join(shape_names(), ", ")), "shape"};
}

}  // namespace krait::tools
