#include "deploy/tools/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/tensor/half.h"

namespace krait::tools {
namespace {

constexpr int64_t kBlockBytes = 8;  // what one number of the generator makes: four values

}  // namespace

/// The tensor is what the first spec that reads it says; specs that share a stored tensor are of one kind.
RandomWeights::Uniform RandomWeights::uniform_of(const TensorSpec& spec) {
  const std::string& role = spec.role;
  if (role == "A_log") return {0, std::log(16.0f)};
  if (role == "dt_bias" || role == "dt_proj.bias") return {-6.9f, -2.25f};  // softplus of it: 0.001 to 0.1
  if (role == "D" || role.ends_with("norm.weight")) return {0.9f, 1.1f};
  if (role.ends_with("bias")) return {-0.1f, 0.1f};
  const float width = std::sqrt(3.0f / static_cast<float>(spec.shape.back()));
  return {-width, width};
}

RandomWeights::RandomWeights(std::string name, const ModelPlan& plan, uint64_t seed)
    : name_(std::move(name)), seed_(seed) {
  int64_t offset = 0;
  for (const BlockPlan& block : plan.blocks) {
    for (const TensorSpec& spec : block.tensors) {
      const StoredTensor tensor{DType::kBF16, spec.stored_shape(), offset};
      if (!tensors_.emplace(spec.stored_name(), tensor).second) continue;
      uniforms_.emplace(offset, uniform_of(spec));
      offset += round_up(tensor.bytes(), kBlockBytes);
    }
  }
}

Status RandomWeights::read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tensor.bytes());
  const Uniform& uniform = uniforms_.at(tensor.offset);
  const float step = (uniform.high - uniform.low) / 65536.0f;
  auto filled = size_t{0};
  while (filled < out.size()) {
    const int64_t at = tensor.offset + first + static_cast<int64_t>(filled);
    const int64_t block = at / kBlockBytes;
    uint64_t bits = SplitMix64(seed_ + static_cast<uint64_t>(block) * 0x9E3779B97F4A7C15).next();
    std::array<uint16_t, kBlockBytes / sizeof(uint16_t)> values{};
    for (uint16_t& value : values) {
      value = f32_to_bf16(uniform.low + step * static_cast<float>(bits & 0xffff));
      bits >>= 16;
    }
    const int64_t skip = at - block * kBlockBytes;
    const size_t take = std::min(static_cast<size_t>(kBlockBytes - skip), out.size() - filled);
    std::memcpy(out.data() + filled, reinterpret_cast<const std::byte*>(values.data()) + skip, take);
    filled += take;
  }
  return {};
}

Result<std::shared_ptr<const Checkpoint>> random_checkpoint(const std::string& name, const std::string& config_json,
                                                            uint64_t seed) {
  ASSIGN_OR_RETURN(const ModelConfig config, parse_model_config(config_json));
  ASSIGN_OR_RETURN(const ModelPlan plan, make_model_plan(config));
  return Checkpoint::make({name, config_json, {std::make_shared<RandomWeights>(name, plan, seed)}});
}

}  // namespace krait::tools
