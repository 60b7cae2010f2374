// Sixteen float32 lanes as one AVX-512 register. The contract of each function is in f32x16_portable.h.
#pragma once

#include <cstdint>

#include "kernels/simd/f32x16_portable.h"
#include "kernels/simd/intrinsics.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
namespace krait::kernels::avx512 {

inline constexpr int kLanes = 16;
inline constexpr bool kLanesAreRegisters = true;

struct F32 final {
  __m512 v;
};
struct I32 final {
  __m512i v;
};
struct Mask final {
  __mmask16 v;
};
struct HighLow final {
  I32 high, low;
};

KRAIT_SIMD_INLINE __mmask16 first_lanes(int count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}

KRAIT_SIMD_INLINE F32 splat(float a) {
  return {_mm512_set1_ps(a)};
}
KRAIT_SIMD_INLINE F32 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
KRAIT_SIMD_INLINE F32 load_partial(const float* p, int count, float fill) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(count), p)};
}
KRAIT_SIMD_INLINE void store(float* p, F32 a) {
  _mm512_storeu_ps(p, a.v);
}
KRAIT_SIMD_INLINE void store_partial(float* p, F32 a, int count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), a.v);
}
KRAIT_SIMD_INLINE F32 operator+(F32 a, F32 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE F32 operator-(F32 a, F32 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE F32 operator*(F32 a, F32 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE F32 operator/(F32 a, F32 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
KRAIT_SIMD_INLINE F32 fnma(F32 a, F32 b, F32 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
KRAIT_SIMD_INLINE F32 max(F32 a, F32 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE F32 min(F32 a, F32 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
KRAIT_SIMD_INLINE Mask operator<(F32 a, F32 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
KRAIT_SIMD_INLINE Mask is_number(F32 a) {
  return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q)};
}
KRAIT_SIMD_INLINE bool any(Mask m) {
  return m.v != 0;
}
KRAIT_SIMD_INLINE F32 select(Mask m, F32 yes, F32 no) {
  return {_mm512_mask_blend_ps(m.v, no.v, yes.v)};
}
KRAIT_SIMD_INLINE I32 select(Mask m, I32 yes, I32 no) {
  return {_mm512_mask_blend_epi32(m.v, no.v, yes.v)};
}

KRAIT_SIMD_INLINE I32 splat_bits(uint32_t a) {
  return {_mm512_set1_epi32(static_cast<int>(a))};
}
KRAIT_SIMD_INLINE I32 count_from(uint32_t first) {
  const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)), steps)};
}
KRAIT_SIMD_INLINE I32 load_bits(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
KRAIT_SIMD_INLINE void store_bits(int32_t* p, I32 a) {
  _mm512_storeu_si512(p, a.v);
}
KRAIT_SIMD_INLINE I32 bits(F32 a) {
  return {_mm512_castps_si512(a.v)};
}
KRAIT_SIMD_INLINE F32 from_bits(I32 a) {
  return {_mm512_castsi512_ps(a.v)};
}
KRAIT_SIMD_INLINE F32 to_float(I32 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
KRAIT_SIMD_INLINE I32 operator+(I32 a, I32 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
KRAIT_SIMD_INLINE I32 operator-(I32 a, I32 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
KRAIT_SIMD_INLINE I32 operator&(I32 a, I32 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
KRAIT_SIMD_INLINE I32 operator^(I32 a, I32 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kCount)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right(I32 a) {
  return {_mm512_srli_epi32(a.v, kCount)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right_signed(I32 a) {
  return {_mm512_srai_epi32(a.v, kCount)};
}
KRAIT_SIMD_INLINE I32 lookup(const uint32_t (&table)[kLanes], I32 i) {
  return {_mm512_permutexvar_epi32(i.v, _mm512_loadu_si512(table))};
}
KRAIT_SIMD_INLINE HighLow multiply_wide(I32 a, uint32_t b) {
  const __m512i factor = _mm512_set1_epi64(b);
  const __m512i even = _mm512_mul_epu32(a.v, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), factor);
  return {{_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd)},
          {_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))}};
}

template <int kDistance>
KRAIT_SIMD_INLINE F32 exchange(F32 a) {
  static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4 || kDistance == 8);
  if constexpr (kDistance == 1) {
    return {_mm512_permute_ps(a.v, 0xB1)};
  } else if constexpr (kDistance == 2) {
    return {_mm512_permute_ps(a.v, 0x4E)};
  } else if constexpr (kDistance == 4) {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0xB1)};
  } else {
    return {_mm512_shuffle_f32x4(a.v, a.v, 0x4E)};
  }
}
KRAIT_SIMD_INLINE I32 load_bytes(const std::byte* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KRAIT_SIMD_INLINE void store_bytes(std::byte* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
KRAIT_SIMD_INLINE I32 load_halves(const std::byte* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KRAIT_SIMD_INLINE void store_halves(std::byte* p, I32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

}  // namespace krait::kernels::avx512
#pragma GCC pop_options
