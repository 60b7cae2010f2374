// AVX-512 tiles of quantized weights: up to 6 x 64 integer sums of one group in registers, float sums in cache.
#if defined(__x86_64__)

#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/gemm_x86.h"
#include "kernels/gemm/integer_groups.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

// The accumulating instruction is written out: as an intrinsic, g++ 12 keeps some accumulators on the stack.
KRAIT_AVX512_INLINE void dot_into(__m512i& sum, __m512i weights, __m512i a) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(a));
}
/// The low and the high half of every byte. As a vector expression: g++ 12 warns inside of its own shift intrinsic.
KRAIT_AVX512_INLINE __m512i low_halves(__m512i bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(0x0f));
}
KRAIT_AVX512_INLINE __m512i high_halves(__m512i bytes) {
  return low_halves(reinterpret_cast<__m512i>(reinterpret_cast<__v16su>(bytes) >> 4));
}

/// Sums over stored weights, four k at a time by the instruction for it, from where the offset cancels.
struct Dot {
  KRAIT_AVX512_INLINE static __m512i begin(const std::byte* group) { return _mm512_set1_epi32(group_at(group).start); }
  KRAIT_AVX512_INLINE static __m512i end(__m512i sum, const std::byte*) { return sum; }

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add_four(const std::byte* a, int64_t stride, const __m512i (&weights)[kVectors],
                                           __m512i (&sums)[kRows][kVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i four = broadcast_cell(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        dot_into(sums[r][v], weights[v], four);
    }
  }
};

/// Without the instruction, weights of four bits: products of pairs fit 16 bits, and so do their sums over a group.
struct PairsOfHalves {
  KRAIT_AVX512_INLINE static __m512i begin(const std::byte*) { return _mm512_setzero_si512(); }
  KRAIT_AVX512_INLINE static __m512i end(__m512i sum, const std::byte* group) {
    return _mm512_add_epi32(_mm512_madd_epi16(sum, _mm512_set1_epi16(1)), _mm512_set1_epi32(group_at(group).start));
  }

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add_four(const std::byte* a, int64_t stride, const __m512i (&weights)[kVectors],
                                           __m512i (&sums)[kRows][kVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i four = broadcast_cell(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_add_epi16(sums[r][v], _mm512_maddubs_epi16(weights[v], four));
    }
  }
};

struct Int8Dot final : Dot {
  static constexpr IntegerFormat kFormat = kInt8Format;
  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const std::byte* a, int64_t stride, const std::byte* w,
                                      __m512i (&sums)[kRows][kVectors]) {
    __m512i weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = _mm512_load_si512(w + v * 64);
    add_four<kRows, kVectors>(a, stride, weights, sums);
  }
};

/// Without the instruction: the magnitudes of weights times activations that take their signs. Both are at most 127 (a
/// column without a row has 128), so that no pair of products saturates.
struct Int8Pairs final {
  static constexpr IntegerFormat kFormat = kInt8Format;
  KRAIT_AVX512_INLINE static __m512i begin(const std::byte*) { return _mm512_setzero_si512(); }
  KRAIT_AVX512_INLINE static __m512i end(__m512i sum, const std::byte*) { return sum; }

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const std::byte* a, int64_t stride, const std::byte* w,
                                      __m512i (&sums)[kRows][kVectors]) {
    __m512i magnitudes[kVectors];
    __mmask64 negative[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i weights = _mm512_xor_si512(_mm512_load_si512(w + v * 64), _mm512_set1_epi8(-128));
      magnitudes[v] = _mm512_abs_epi8(weights);
      negative[v] = _mm512_movepi8_mask(weights);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i four = broadcast_cell(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m512i with_sign = _mm512_mask_sub_epi8(four, negative[v], _mm512_setzero_si512(), four);
        const __m512i pairs = _mm512_maddubs_epi16(magnitudes[v], with_sign);
        sums[r][v] = _mm512_add_epi32(sums[r][v], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
      }
    }
  }
};

/// Eight k: the low halves of the bytes, then the high ones.
template <class Four>
struct Int4Halves final : Four {
  static constexpr IntegerFormat kFormat = kInt4Format;
  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const std::byte* a, int64_t stride, const std::byte* w,
                                      __m512i (&sums)[kRows][kVectors]) {
    __m512i weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = low_halves(_mm512_load_si512(w + v * 64));
    Four::template add_four<kRows, kVectors>(a, stride, weights, sums);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = high_halves(_mm512_load_si512(w + v * 64));
    Four::template add_four<kRows, kVectors>(a + 4, stride, weights, sums);
  }
};

/// The scales of each vector's columns: pairs of vectors lie in the two halves of one line's words.
template <int kVectors>
KRAIT_AVX512_INLINE void load_scales(const std::byte* from, __m512 (&scales)[kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512i pairs = _mm512_load_si512(from + v / 2 * 64);
    scales[v] = v % 2 == 0 ? lower_bf16(pairs) : upper_bf16(pairs);
  }
}

/// Adds a group's integer sums, each times the scales of its row and its column.
template <class Step, int kRows, int kVectors>
KRAIT_AVX512_INLINE void add_scaled(const std::byte* a, int64_t stride, const std::byte* scales_at,
                                    const __m512i (&integers)[kRows][kVectors], float* sums) {
  __m512 scales[kVectors];
  load_scales<kVectors>(scales_at, scales);
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m512 row_scale = _mm512_set1_ps(group_at(a + r * stride).scale);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const sum = sums + (r * kVectors + v) * 16;
      const __m512 scale = _mm512_mul_ps(row_scale, scales[v]);
      const __m512 integer = _mm512_cvtepi32_ps(Step::end(integers[r][v], a + r * stride));
      _mm512_store_ps(sum, _mm512_fmadd_ps(scale, integer, _mm512_load_ps(sum)));
    }
  }
}

template <class Step>
struct Tile final {
  template <int kRows, int kVectors>
  KRAIT_AVX512 static void run(const TileArgs& args) {
    TileSums<kRows, kVectors * kVectorColumns> tile;
    const auto* a = static_cast<const std::byte*>(args.a);
    const std::byte* w = args.panel;
    const std::byte* prefetch = args.prefetch;
    int leaf = 0;
    do {
      std::fill_n(tile.sums, tile.kCount, 0.0f);
      for (int64_t k = 0; k < args.leaf_k; k += Step::kFormat.group_k) {
        __m512i integers[kRows][kVectors];
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
          const __m512i first = Step::begin(a + r * args.a_stride);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v)
            integers[r][v] = first;
        }
        const std::byte* levels = a + sizeof(ActivationGroup);
        const std::byte* line = w + kScaleBytes;
#pragma GCC unroll 2
        for (int64_t i = 0; i < Step::kFormat.group_k; i += Step::kFormat.cell_k) {
          _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
          Step::template add<kRows, kVectors>(levels, args.a_stride, line, integers);
          levels += Step::kFormat.cell_k;
          line += kLineBytes;
          prefetch += args.prefetch_bytes;
        }
        // Or the compiler would keep these sums in registers, and put the integers on the stack instead.
        float* sums = tile.sums;
        asm volatile("" : "+r"(sums) : : "memory");
        add_scaled<Step, kRows, kVectors>(a, args.a_stride, w, integers, sums);
        a = levels;
        w = line;
      }
      tile.add_to_tree(leaf, args.leaves);
    } while (++leaf < args.leaves);
    tile.write_out(args);
  }
};

template <class Step>
KRAIT_AVX512 void quantize(const float* from, int leaves, int64_t leaf_k, int64_t, std::byte* to) {
  quantize_row<Step::kFormat>(from, leaves, leaf_k, to);
}

template <class Step>
constexpr TileTable make_table() {
  return make_tile_table<Tile<Step>>(quantize<Step>, 1);
}

}  // namespace

constinit const TileTable kAvx512Int8Dot = make_table<Int8Dot>();
constinit const TileTable kAvx512Int4Dot = make_table<Int4Halves<Dot>>();
constinit const TileTable kAvx512Int8 = make_table<Int8Pairs>();
constinit const TileTable kAvx512Int4 = make_table<Int4Halves<PairsOfHalves>>();

}  // namespace krait::kernels

#endif  // __x86_64__
