// What a file's elements are worth, as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/tensor/dtype.h"

namespace krait {

/// Whether weights may be stored in it: widen() knows it.
bool is_weight_dtype(DType dtype);
/// All of those, for people: "F32, BF16, ... and Q6_K".
std::string weight_dtype_names();

/// out[i] = float32 of element i. `data` holds them as a file of that type has them, at any alignment; out.size() is
/// whole blocks. Exact, but for the one rounding of an element of Q6_K. A block is
///   Q8_0  half d; int8 q[32]:      d * q[i]
///   Q4_0  half d; uint8 q[16]:     d * (q - 8), elements 0-15 in the low halves of the bytes and 16-31 in the high
///   ones Q6_K  uint8 low[128], high[64]; int8 s[16]; half d:   d * s[i / 16] * (q - 32), where of each half of the
///   block (its
///         own 64 bytes of low and 32 of high) element 32 j + l has its four low bits in low[32 (j mod 2) + l], in the
///         low half of the byte for j < 2 and the high one else, and its two high bits in bits 2 j and 2 j + 1 of
///         high[l].
void widen(DType dtype, const std::byte* data, std::span<float> out);

}  // namespace krait
