// Sixteen float32 lanes in plain C++. The other paths give the same bits: every operation is one IEEE operation a lane.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define KRAIT_SIMD_INLINE inline __attribute__((always_inline))

namespace krait::kernels::portable {

inline constexpr int kLanes = 16;
inline constexpr bool kLanesAreRegisters = false;  // whether it pays to keep sixteen vectors in variables

struct F32 final {
  float v[kLanes];
};
struct I32 final {
  uint32_t v[kLanes];
};
struct Mask final {
  bool v[kLanes];
};
struct HighLow final {
  I32 high, low;
};

#define KRAIT_SIMD_EACH(Type, expression) \
  Type out;                               \
  for (int i = 0; i < kLanes; ++i)        \
    out.v[i] = (expression);              \
  return out

KRAIT_SIMD_INLINE F32 splat(float a) {
  KRAIT_SIMD_EACH(F32, a);
}
KRAIT_SIMD_INLINE F32 load(const float* p) {
  KRAIT_SIMD_EACH(F32, p[i]);
}
/// The first `count` lanes from memory, `fill` in the others.
KRAIT_SIMD_INLINE F32 load_partial(const float* p, int count, float fill) {
  KRAIT_SIMD_EACH(F32, i < count ? p[i] : fill);
}
KRAIT_SIMD_INLINE void store(float* p, F32 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
KRAIT_SIMD_INLINE void store_partial(float* p, F32 a, int count) {
  for (int i = 0; i < count; ++i)
    p[i] = a.v[i];
}
KRAIT_SIMD_INLINE F32 operator+(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] + b.v[i]);
}
KRAIT_SIMD_INLINE F32 operator-(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] - b.v[i]);
}
KRAIT_SIMD_INLINE F32 operator*(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] * b.v[i]);
}
KRAIT_SIMD_INLINE F32 operator/(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] / b.v[i]);
}
/// a * b + c, rounded once.
KRAIT_SIMD_INLINE F32 fma(F32 a, F32 b, F32 c) {
  KRAIT_SIMD_EACH(F32, std::fma(a.v[i], b.v[i], c.v[i]));
}
/// c - a * b, rounded once.
KRAIT_SIMD_INLINE F32 fnma(F32 a, F32 b, F32 c) {
  KRAIT_SIMD_EACH(F32, std::fma(-a.v[i], b.v[i], c.v[i]));
}
/// a > b ? a : b, so b where either is a NaN; min likewise.
KRAIT_SIMD_INLINE F32 max(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
KRAIT_SIMD_INLINE F32 min(F32 a, F32 b) {
  KRAIT_SIMD_EACH(F32, a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
KRAIT_SIMD_INLINE Mask operator<(F32 a, F32 b) {
  KRAIT_SIMD_EACH(Mask, a.v[i] < b.v[i]);
}
KRAIT_SIMD_INLINE Mask is_number(F32 a) {
  KRAIT_SIMD_EACH(Mask, a.v[i] == a.v[i]);
}
KRAIT_SIMD_INLINE bool any(Mask m) {
  bool found = false;
  for (const bool lane : m.v)
    found = found || lane;
  return found;
}
KRAIT_SIMD_INLINE F32 select(Mask m, F32 yes, F32 no) {
  KRAIT_SIMD_EACH(F32, m.v[i] ? yes.v[i] : no.v[i]);
}
KRAIT_SIMD_INLINE I32 select(Mask m, I32 yes, I32 no) {
  KRAIT_SIMD_EACH(I32, m.v[i] ? yes.v[i] : no.v[i]);
}

KRAIT_SIMD_INLINE I32 splat_bits(uint32_t a) {
  KRAIT_SIMD_EACH(I32, a);
}
/// first, first + 1, ... first + 15.
KRAIT_SIMD_INLINE I32 count_from(uint32_t first) {
  KRAIT_SIMD_EACH(I32, first + static_cast<uint32_t>(i));
}
KRAIT_SIMD_INLINE I32 load_bits(const int32_t* p) {
  KRAIT_SIMD_EACH(I32, static_cast<uint32_t>(p[i]));
}
KRAIT_SIMD_INLINE void store_bits(int32_t* p, I32 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
KRAIT_SIMD_INLINE I32 bits(F32 a) {
  KRAIT_SIMD_EACH(I32, std::bit_cast<uint32_t>(a.v[i]));
}
KRAIT_SIMD_INLINE F32 from_bits(I32 a) {
  KRAIT_SIMD_EACH(F32, std::bit_cast<float>(a.v[i]));
}
KRAIT_SIMD_INLINE F32 to_float(I32 a) {
  KRAIT_SIMD_EACH(F32, static_cast<float>(static_cast<int32_t>(a.v[i])));
}
KRAIT_SIMD_INLINE I32 operator+(I32 a, I32 b) {
  KRAIT_SIMD_EACH(I32, a.v[i] + b.v[i]);
}
KRAIT_SIMD_INLINE I32 operator-(I32 a, I32 b) {
  KRAIT_SIMD_EACH(I32, a.v[i] - b.v[i]);
}
KRAIT_SIMD_INLINE I32 operator&(I32 a, I32 b) {
  KRAIT_SIMD_EACH(I32, a.v[i] & b.v[i]);
}
KRAIT_SIMD_INLINE I32 operator^(I32 a, I32 b) {
  KRAIT_SIMD_EACH(I32, a.v[i] ^ b.v[i]);
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_left(I32 a) {
  KRAIT_SIMD_EACH(I32, a.v[i] << kCount);
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right(I32 a) {
  KRAIT_SIMD_EACH(I32, a.v[i] >> kCount);
}
/// Copies of the sign come in from the left.
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right_signed(I32 a) {
  KRAIT_SIMD_EACH(I32, static_cast<uint32_t>(static_cast<int32_t>(a.v[i]) >> kCount));
}
/// table[i mod 16] in each lane.
KRAIT_SIMD_INLINE I32 lookup(const uint32_t (&table)[kLanes], I32 a) {
  KRAIT_SIMD_EACH(I32, table[a.v[i] % kLanes]);
}
/// Both halves of the unsigned 64-bit product with `b`.
KRAIT_SIMD_INLINE HighLow multiply_wide(I32 a, uint32_t b) {
  HighLow out;
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t product = uint64_t{a.v[i]} * b;
    out.high.v[i] = static_cast<uint32_t>(product >> 32);
    out.low.v[i] = static_cast<uint32_t>(product);
  }
  return out;
}

/// Lane i of the result is lane i ^ kDistance, for 1, 2, 4 and 8.
template <int kDistance>
KRAIT_SIMD_INLINE F32 exchange(F32 a) {
  KRAIT_SIMD_EACH(F32, a.v[i ^ kDistance]);
}
/// Sixteen signed bytes, widened; and the lowest byte of each lane.
KRAIT_SIMD_INLINE I32 load_bytes(const std::byte* p) {
  KRAIT_SIMD_EACH(I32, static_cast<uint32_t>(static_cast<int8_t>(p[i])));
}
KRAIT_SIMD_INLINE void store_bytes(std::byte* p, I32 a) {
  for (int i = 0; i < kLanes; ++i)
    p[i] = static_cast<std::byte>(a.v[i]);
}
/// Sixteen unsigned halves of 16 bits, widened; and the lower half of each lane. They need not be aligned.
KRAIT_SIMD_INLINE I32 load_halves(const std::byte* p) {
  uint16_t halves[kLanes];
  std::memcpy(halves, p, sizeof halves);
  KRAIT_SIMD_EACH(I32, halves[i]);
}
KRAIT_SIMD_INLINE void store_halves(std::byte* p, I32 a) {
  uint16_t halves[kLanes];
  for (int i = 0; i < kLanes; ++i)
    halves[i] = static_cast<uint16_t>(a.v[i]);
  std::memcpy(p, halves, sizeof halves);
}

#undef KRAIT_SIMD_EACH

}  // namespace krait::kernels::portable
