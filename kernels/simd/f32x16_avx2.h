// Sixteen float32 lanes as two AVX registers. The contract of each function is in f32x16_portable.h.
#pragma once

#include <cstdint>

#include "kernels/simd/f32x16_portable.h"
#include "kernels/simd/intrinsics.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace krait::kernels::avx2 {

inline constexpr int kLanes = 16;
inline constexpr bool kLanesAreRegisters = true;

struct F32 final {
  __m256 a, b;  // lanes 0 to 7, 8 to 15
};
struct I32 final {
  __m256i a, b;
};
struct Mask final {
  __m256 a, b;  // all bits of a lane
};
struct HighLow final {
  I32 high, low;
};

KRAIT_SIMD_INLINE __m256i first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

KRAIT_SIMD_INLINE F32 splat(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
KRAIT_SIMD_INLINE F32 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
KRAIT_SIMD_INLINE F32 load_partial(const float* p, int count, float fill) {
  const __m256i a = first_lanes(count), b = first_lanes(count - 8);
  const __m256 other = _mm256_set1_ps(fill);
  return {_mm256_blendv_ps(other, _mm256_maskload_ps(p, a), _mm256_castsi256_ps(a)),
          _mm256_blendv_ps(other, _mm256_maskload_ps(p + 8, b), _mm256_castsi256_ps(b))};
}
KRAIT_SIMD_INLINE void store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
KRAIT_SIMD_INLINE void store_partial(float* p, F32 x, int count) {
  _mm256_maskstore_ps(p, first_lanes(count), x.a);
  _mm256_maskstore_ps(p + 8, first_lanes(count - 8), x.b);
}
KRAIT_SIMD_INLINE F32 operator+(F32 x, F32 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE F32 operator-(F32 x, F32 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE F32 operator*(F32 x, F32 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE F32 operator/(F32 x, F32 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE F32 fma(F32 x, F32 y, F32 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
KRAIT_SIMD_INLINE F32 fnma(F32 x, F32 y, F32 z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
KRAIT_SIMD_INLINE F32 max(F32 x, F32 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE F32 min(F32 x, F32 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
KRAIT_SIMD_INLINE Mask operator<(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
KRAIT_SIMD_INLINE Mask is_number(F32 x) {
  return {_mm256_cmp_ps(x.a, x.a, _CMP_ORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_ORD_Q)};
}
KRAIT_SIMD_INLINE bool any(Mask m) {
  return _mm256_movemask_ps(_mm256_or_ps(m.a, m.b)) != 0;
}
KRAIT_SIMD_INLINE F32 select(Mask m, F32 yes, F32 no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
KRAIT_SIMD_INLINE I32 select(Mask m, I32 yes, I32 no) {
  return {_mm256_blendv_epi8(no.a, yes.a, _mm256_castps_si256(m.a)),
          _mm256_blendv_epi8(no.b, yes.b, _mm256_castps_si256(m.b))};
}

KRAIT_SIMD_INLINE I32 splat_bits(uint32_t x) {
  return {_mm256_set1_epi32(static_cast<int>(x)), _mm256_set1_epi32(static_cast<int>(x))};
}
KRAIT_SIMD_INLINE I32 operator+(I32 x, I32 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
KRAIT_SIMD_INLINE I32 operator-(I32 x, I32 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
KRAIT_SIMD_INLINE I32 operator&(I32 x, I32 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
KRAIT_SIMD_INLINE I32 operator^(I32 x, I32 y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
KRAIT_SIMD_INLINE I32 count_from(uint32_t first) {
  const I32 steps = {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  return splat_bits(first) + steps;
}
KRAIT_SIMD_INLINE I32 load_bits(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
KRAIT_SIMD_INLINE void store_bits(int32_t* p, I32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
KRAIT_SIMD_INLINE I32 bits(F32 x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
KRAIT_SIMD_INLINE F32 from_bits(I32 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
KRAIT_SIMD_INLINE F32 to_float(I32 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_left(I32 x) {
  return {_mm256_slli_epi32(x.a, kCount), _mm256_slli_epi32(x.b, kCount)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right(I32 x) {
  return {_mm256_srli_epi32(x.a, kCount), _mm256_srli_epi32(x.b, kCount)};
}
template <int kCount>
KRAIT_SIMD_INLINE I32 shift_right_signed(I32 x) {
  return {_mm256_srai_epi32(x.a, kCount), _mm256_srai_epi32(x.b, kCount)};
}
KRAIT_SIMD_INLINE __m256i lookup_half(__m256i first, __m256i last, __m256i i) {
  const __m256 low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(first, i));
  const __m256 high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(last, i));
  return _mm256_castps_si256(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28))));
}
KRAIT_SIMD_INLINE I32 lookup(const uint32_t (&table)[kLanes], I32 i) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table));
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table + 8));
  return {lookup_half(first, last, i.a), lookup_half(first, last, i.b)};
}
struct HighLowHalf final {
  __m256i high, low;
};
KRAIT_SIMD_INLINE HighLowHalf multiply_wide_half(__m256i x, __m256i factor) {
  const __m256i even = _mm256_mul_epu32(x, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA)};
}
KRAIT_SIMD_INLINE HighLow multiply_wide(I32 x, uint32_t y) {
  const __m256i factor = _mm256_set1_epi64x(y);
  const HighLowHalf a = multiply_wide_half(x.a, factor), b = multiply_wide_half(x.b, factor);
  return {{a.high, b.high}, {a.low, b.low}};
}

template <int kDistance>
KRAIT_SIMD_INLINE F32 exchange(F32 x) {
  static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4 || kDistance == 8);
  if constexpr (kDistance == 1) {
    return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
  } else if constexpr (kDistance == 2) {
    return {_mm256_permute_ps(x.a, 0x4E), _mm256_permute_ps(x.b, 0x4E)};
  } else if constexpr (kDistance == 4) {
    return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  } else {
    return {x.b, x.a};
  }
}
KRAIT_SIMD_INLINE I32 load_bytes(const std::byte* p) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(all), _mm256_cvtepi8_epi32(_mm_srli_si128(all, 8))};
}
/// The lower half of each lane, in order; 16-bit lanes.
KRAIT_SIMD_INLINE __m256i lower_halves(I32 x) {
  const __m256i mask = _mm256_set1_epi32(0xFFFF);
  // The pack works on each 128-bit half alone: its quarters come out as a0 b0 a1 b1.
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)), 0xD8);
}
KRAIT_SIMD_INLINE void store_bytes(std::byte* p, I32 x) {
  const __m256i bytes = _mm256_and_si256(lower_halves(x), _mm256_set1_epi16(0xFF));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}
KRAIT_SIMD_INLINE I32 load_halves(const std::byte* p) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1))};
}
KRAIT_SIMD_INLINE void store_halves(std::byte* p, I32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), lower_halves(x));
}

}  // namespace krait::kernels::avx2
#pragma GCC pop_options
