// AVX-512 tiles of quantized weights: the integer sums of one group and the float sums of all, 6 x 32 of each, in
// registers.
#if defined(__x86_64__)

#include "kernels/gemm/gemm_avx512_sums.h"
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
KRAIT_AVX512_INLINE void add_scaled(const std::byte* a, int64_t stride, const __m512 (&scales)[kVectors],
                                    const __m512i (&integers)[kRows][kVectors], __m512 (&sums)[kRows][kVectors]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m512 row_scale = _mm512_set1_ps(group_at(a + r * stride).scale);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scale = _mm512_mul_ps(row_scale, scales[v]);
      sums[r][v] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(Step::end(integers[r][v], a + r * stride)), sums[r][v]);
    }
  }
}

/// Rows whose integers and floats fit the registers for a whole panel.
constexpr int kWholePanelRows = 3;

/// Vectors of a panel that one pass takes. Every pass reads the activations again, which are near.
constexpr int vectors_a_pass(int rows, int vectors) {
  return rows <= kWholePanelRows ? vectors : std::min(vectors, 2);
}

template <class Step>
struct Tile final {
  template <int kRows, int kVectors>
  KRAIT_AVX512 static void run(const TileArgs& args) {
    constexpr int kPass = vectors_a_pass(kRows, kVectors);
    const std::byte* prefetch = args.prefetch;
    for (int first = 0; first + kPass <= kVectors; first += kPass)
      run_pass<kRows, kPass>(args, first, prefetch);
    if constexpr (kVectors % kPass != 0) run_pass<kRows, kVectors % kPass>(args, kVectors / kPass * kPass, prefetch);
  }

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void run_pass(const TileArgs& args, int first, const std::byte*& prefetch) {
    alignas(64) float waiting[kMaxTreeDepth][kRows * kVectors * 16];
    const auto* a = static_cast<const std::byte*>(args.a);
    const std::byte* w = args.panel;
    int depth = 0;
    int leaf = 0;
    __m512 sums[kRows][kVectors];
    do {
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] = _mm512_setzero_ps();
      }
      for (int64_t k = 0; k < args.leaf_k; k += Step::kFormat.group_k) {
        __m512i integers[kRows][kVectors];
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
          const __m512i begin = Step::begin(a + r * args.a_stride);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v)
            integers[r][v] = begin;
        }
        const std::byte* levels = a + sizeof(ActivationGroup);
        const std::byte* line = w + kScaleBytes + first * 64;
#pragma GCC unroll 4
        for (int i = 0; i < static_cast<int>(Step::kFormat.group_k / Step::kFormat.cell_k); ++i) {
          _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
          Step::template add<kRows, kVectors>(levels, args.a_stride, line, integers);
          levels += Step::kFormat.cell_k;
          line += kLineBytes;
          prefetch += args.prefetch_bytes;
        }
        __m512 scales[kVectors];
        load_scales<kVectors>(w + first * 32, scales);
        add_scaled<Step, kRows, kVectors>(a, args.a_stride, scales, integers, sums);
        a = levels;
        w = line - first * 64;
      }
      add_to_tree<kRows, kVectors>(leaf, args.leaves, depth, waiting, sums);
    } while (++leaf < args.leaves);
    write_out<kRows, kVectors>(args, first * kVectorColumns, sums);
  }
};

template <class Step>
KRAIT_AVX512 void quantize(const float* from, int leaves, int64_t leaf_k, int64_t, std::byte* to) {
  quantize_row<Step::kFormat>(from, leaves, leaf_k, to);
}

template <class Step>
constexpr TileTable make_table() {
  TileTable table = make_tile_table<Tile<Step>>(quantize<Step>, 1);
  table.few_rows = kWholePanelRows;
  return table;
}

}  // namespace

constinit const TileTable kAvx512Int8Dot = make_table<Int8Dot>();
constinit const TileTable kAvx512Int4Dot = make_table<Int4Halves<Dot>>();
constinit const TileTable kAvx512Int8 = make_table<Int8Pairs>();
constinit const TileTable kAvx512Int4 = make_table<Int4Halves<PairsOfHalves>>();

}  // namespace krait::kernels

#endif  // __x86_64__
