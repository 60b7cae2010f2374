#include "kernels/gemm/integer_weights.h"

#include "common/tensor/half.h"

#define KRAIT_SIMD_BODY "kernels/gemm/int4_weights.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {
namespace {

constexpr int32_t kInt8Levels = 127;
constexpr int kTried = 16;  // scales at once: a vector of them

/// A scale for groups that have none: NaN where something is no number, and zero where all is (nearly) zero.
bool has_scale(uint32_t largest, uint16_t& scale) {
  const bool finite = largest < std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  scale = finite ? uint16_t{0} : uint16_t{0x7fc0};
  return finite && largest >= std::bit_cast<uint32_t>(kLeastOfGroup);
}

/// The scales that are tried, as magnitudes over the largest weight; each with both signs, the negative one first.
constexpr float kInt4Divisors[] = {8.0f, 7.5f, 7.0f, 6.5f, 6.0f, 5.5f};

}  // namespace

uint16_t quantize_int8_weights(const float* from, int64_t count, int32_t* to) {
  const uint32_t largest = largest_bits(from, count);
  uint16_t bits = 0;
  std::fill_n(to, count, 0);
  if (!has_scale(largest, bits)) return bits;
  // Upwards, so that nothing is cut off.
  const float exact = std::bit_cast<float>(largest) / static_cast<float>(kInt8Levels);
  bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(exact) + 0xffffu) >> 16);
  const float scale = bf16_to_f32(bits);
  for (int64_t i = 0; i < count; ++i)
    to[i] = nearest(from[i] / scale);
  return bits;
}

uint16_t quantize_int4_weights(const float* from, int64_t count, int32_t* to) {
  const uint32_t largest = largest_bits(from, count);
  uint16_t best = 0;
  std::fill_n(to, count, 0);
  if (!has_scale(largest, best)) return best;
  uint16_t tried[kTried] = {};
  float scales[kTried] = {}, errors[kTried];
  int count_tried = 0;
  for (const float divisor : kInt4Divisors) {
    const uint16_t magnitude = f32_to_bf16(std::bit_cast<float>(largest) / divisor);
    for (const uint16_t sign : {uint16_t{0x8000}, uint16_t{0}}) {
      tried[count_tried] = magnitude | sign;
      scales[count_tried] = bf16_to_f32(tried[count_tried]);
      ++count_tried;
    }
  }
  // Any path gives these bits, so the best one is taken without asking whose weights these are.
  static const CpuPath path = best_cpu_path();
  KRAIT_SIMD_CALL(path, int4_squared_errors, from, count, scales, errors);
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < count_tried; ++i) {
    const bool better = errors[i] < least;  // without a branch, which nothing could foresee
    least = better ? errors[i] : least;
    best = better ? tried[i] : best;
  }
  KRAIT_SIMD_CALL(path, int4_levels, from, count, 1.0f / bf16_to_f32(best), to);
  return best;
}

}  // namespace krait::kernels
