// The one rule by which weights and activations become small integers. Every path has the same bits, because only a few
// float32 operations are involved, each rounded, and sums of integers are exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace krait::kernels {

/// How a type of quantized weights lies along k.
struct IntegerFormat final {
  int64_t group_k = 0;  // neighbours that share a scale; a leaf is padded to whole groups
  int64_t cell_k = 0;   // neighbours that share 32 bits of a panel; divides group_k
  int32_t offset = 0;   // what is added to a weight where it is stored, so that it is never negative
};
inline constexpr IntegerFormat kInt8Format{.group_k = 64, .cell_k = 4, .offset = 128};
inline constexpr IntegerFormat kInt4Format{.group_k = 32, .cell_k = 8, .offset = 8};

inline constexpr int32_t kActivationLevels = 127;
/// Groups in which nothing is larger count as zeros: their scale would have no inverse.
inline constexpr float kLeastOfGroup = 0x1p-100f;

/// What stands before the group_k integers of a group.
struct ActivationGroup final {
  float scale = 0;
  int32_t start = 0;  // -offset times the sum of the integers: where the sum over stored weights begins
};

/// The group whose head is there.
__attribute__((always_inline)) inline const ActivationGroup& group_at(const std::byte* head) {
  return *reinterpret_cast<const ActivationGroup*>(head);
}

/// The nearest integer, ties to even, of values between -2^21 and 2^21. Without a call, so that loops become vectors.
inline int32_t nearest(float value) {
  return std::bit_cast<int32_t>(value + 0x1.8p23f) - std::bit_cast<int32_t>(0x1.8p23f);
}

/// The bits of the largest magnitude: from infinity on, something in there is no number.
inline uint32_t largest_bits(const float* values, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  return largest;
}

/// Integers of one group of activations. In a group with NaN or infinity the scale is NaN and with it every product.
__attribute__((always_inline)) inline ActivationGroup quantize_group(const float* from, int64_t count, int32_t offset,
                                                                     int8_t* to) {
  const uint32_t largest = largest_bits(from, count);
  if (largest >= std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity())) {
    std::fill_n(to, count, int8_t{0});
    return {.scale = std::numeric_limits<float>::quiet_NaN()};
  }
  if (largest < std::bit_cast<uint32_t>(kLeastOfGroup)) {
    std::fill_n(to, count, int8_t{0});
    return {};
  }
  const float inverse = static_cast<float>(kActivationLevels) / std::bit_cast<float>(largest);
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t level = nearest(from[i] * inverse);
    sum += level;
    to[i] = static_cast<int8_t>(level);
  }
  return {.scale = std::bit_cast<float>(largest) / static_cast<float>(kActivationLevels), .start = -offset * sum};
}

/// A row of activations from [leaves][leaf_k] to, for each leaf and group of it, an ActivationGroup and its integers.
/// Inlined into a function of each path, so that the compiler may use that path's vectors.
template <IntegerFormat kFormat>
__attribute__((always_inline)) inline void quantize_row(const float* from, int leaves, int64_t leaf_k, std::byte* to) {
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int64_t left = leaf_k; left > 0; left -= kFormat.group_k) {
      auto* const levels = reinterpret_cast<int8_t*>(to + sizeof(ActivationGroup));
      const int64_t count = std::min(left, kFormat.group_k);
      // A whole group has a length that the compiler knows.
      const ActivationGroup group = left >= kFormat.group_k
                                        ? quantize_group(from, kFormat.group_k, kFormat.offset, levels)
                                        : quantize_group(from, count, kFormat.offset, levels);
      std::memcpy(to, &group, sizeof(group));
      std::fill(levels + count, levels + kFormat.group_k, int8_t{0});
      from += count;
      to += static_cast<int64_t>(sizeof(group)) + kFormat.group_k;
    }
  }
}

}  // namespace krait::kernels
