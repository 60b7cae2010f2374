// The one rounding of weights and activations to bf16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/tensor/half.h"

namespace krait::kernels {

/// Nearest, ties to even; subnormals become zero, because vdpbf16ps reads them as zero and every path must agree.
constexpr uint16_t round_to_bf16(float value) {
  const uint16_t bits = f32_to_bf16(value);
  return (bits & 0x7f80u) != 0 ? bits : uint16_t{0};
}

/// A row of activations from [leaves][leaf_k] to [leaves][padded_leaf_k], padding zero, as bf16 or as float of the same
/// value. Inlined into a function of each path, so that the compiler may use that path's vectors.
template <class To>
__attribute__((always_inline)) inline void round_row(const float* from, int leaves, int64_t leaf_k,
                                                     int64_t padded_leaf_k, To* to) {
  if (leaf_k == padded_leaf_k) {
    leaf_k = padded_leaf_k = leaf_k * leaves;
    leaves = 1;
  }
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int64_t i = 0; i < leaf_k; ++i) {
      const uint16_t bits = round_to_bf16(from[i]);
      if constexpr (std::is_same_v<To, float>) {
        to[i] = bf16_to_f32(bits);
      } else {
        to[i] = bits;
      }
    }
    for (int64_t i = leaf_k; i < padded_leaf_k; ++i)
      to[i] = To{0};
    from += leaf_k;
    to += padded_leaf_k;
  }
}

}  // namespace krait::kernels
