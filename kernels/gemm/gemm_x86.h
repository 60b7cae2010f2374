// Inside of gemm: what its files for x86 share.
#pragma once

#if defined(__x86_64__)

#include <cstdint>

#include "kernels/simd/intrinsics.h"

#define KRAIT_AVX2 __attribute__((target("avx2,fma")))
#define KRAIT_AVX2_INLINE KRAIT_AVX2 __attribute__((always_inline)) inline
#define KRAIT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define KRAIT_AVX512_INLINE KRAIT_AVX512 __attribute__((always_inline)) inline

namespace krait::kernels {

using AliasedInt = int32_t __attribute__((may_alias));  // a cell of activations: two bf16, or four integers

// As an intrinsic, g++ 12 would load it once and keep it on the stack.
KRAIT_AVX512_INLINE __m512i broadcast_cell(const void* cell) {
  __m512i wide;
  asm("vpbroadcastd %1, %0" : "=v"(wide) : "m"(*static_cast<const AliasedInt*>(cell)));
  return wide;
}

/// The lower and the upper bf16 of each word as float. As a vector expression: g++ 12 warns inside of its own shift
/// intrinsic.
KRAIT_AVX512_INLINE __m512 lower_bf16(__m512i words) {
  return _mm512_castsi512_ps(reinterpret_cast<__m512i>(reinterpret_cast<__v16su>(words) << 16));
}
KRAIT_AVX512_INLINE __m512 upper_bf16(__m512i words) {
  return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
KRAIT_AVX2_INLINE __m256 lower_bf16(__m256i words) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
KRAIT_AVX2_INLINE __m256 upper_bf16(__m256i words) {
  return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

}  // namespace krait::kernels

#endif  // __x86_64__
