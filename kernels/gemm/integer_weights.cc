#include "kernels/gemm/integer_weights.h"

#include "common/tensor/half.h"

namespace krait::kernels {
namespace {

constexpr int32_t kInt8Levels = 127;
constexpr int32_t kInt4Least = -8;
constexpr int32_t kInt4Most = 7;
constexpr int kLanes = 16;  // of sums of squares, so that their order does not forbid vectors

/// A scale for groups that have none: NaN where something is no number, and zero where all is (nearly) zero.
bool has_scale(uint32_t largest, uint16_t& scale) {
  const bool finite = largest < std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  scale = finite ? uint16_t{0} : uint16_t{0x7fc0};
  return finite && largest >= std::bit_cast<uint32_t>(kLeastOfGroup);
}

/// The sum of the squares of what four bits lose of a group with that scale.
float squared_error(const float* from, int64_t count, float scale) {
  const float inverse = 1.0f / scale;
  float sums[kLanes] = {};
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t lanes = std::min<int64_t>(count - first, kLanes);
    for (int64_t i = 0; i < lanes; ++i) {
      const float weight = from[first + i];
      const int32_t level = std::clamp(nearest(weight * inverse), kInt4Least, kInt4Most);
      const float lost = weight - scale * static_cast<float>(level);
      sums[i] += lost * lost;
    }
  }
  float sum = 0;
  for (const float lane : sums)
    sum += lane;
  return sum;
}

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
  float least = std::numeric_limits<float>::infinity();
  for (const float divisor : {8.0f, 7.5f, 7.0f, 6.5f, 6.0f, 5.5f}) {
    for (const float sign : {-1.0f, 1.0f}) {
      const uint16_t bits = f32_to_bf16(std::bit_cast<float>(largest) / (sign * divisor));
      const float error = squared_error(from, count, bf16_to_f32(bits));
      if (error < least) {
        least = error;
        best = bits;
      }
    }
  }
  const float inverse = 1.0f / bf16_to_f32(best);
  for (int64_t i = 0; i < count; ++i)
    to[i] = std::clamp(nearest(from[i] * inverse), kInt4Least, kInt4Most);
  return best;
}

}  // namespace krait::kernels
