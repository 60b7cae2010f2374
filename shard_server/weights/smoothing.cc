#include "shard_server/weights/smoothing.h"

#include <algorithm>
#include <cmath>

#include "kernels/gemm/integer_groups.h"

namespace krait::shard {
namespace {

constexpr float kMostFactor = 0x1p60f;  // far from what would overflow a weight

void smooth_group(std::span<const float> norm, std::span<float> factors) {
  std::vector<float> magnitudes;
  for (const float weight : norm) {
    if (std::isfinite(weight)) magnitudes.push_back(std::abs(weight));
  }
  if (magnitudes.empty()) return;
  const auto middle = magnitudes.begin() + std::ssize(magnitudes) / 2;
  std::nth_element(magnitudes.begin(), middle, magnitudes.end());
  if (*middle == 0) return;
  for (size_t i = 0; i < norm.size(); ++i) {
    const float ratio = std::abs(norm[i]) / *middle;
    if (ratio >= 2 && ratio < kMostFactor) factors[i] = std::exp2(std::floor(std::log2(ratio)));
  }
}

}  // namespace

std::vector<float> smoothing_factors(std::span<const float> norm, int leaves) {
  std::vector<float> factors(norm.size(), 1.0f);
  const size_t leaf = norm.size() / static_cast<size_t>(leaves);
  const auto group = static_cast<size_t>(kernels::kInt8Format.group_k);
  for (size_t begin = 0; leaf > 0 && begin < norm.size(); begin += leaf) {
    for (size_t at = 0; at < leaf; at += group) {
      const size_t count = std::min(group, leaf - at);
      smooth_group(norm.subspan(begin + at, count), std::span(factors).subspan(begin + at, count));
    }
  }
  return factors;
}

}  // namespace krait::shard
