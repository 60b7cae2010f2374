// AVX2 tiles of quantized weights: integer sums of one group in registers, float sums in cache; a panel in as many
// passes as that takes.
#if defined(__x86_64__)

#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/gemm_x86.h"
#include "kernels/gemm/integer_groups.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

/// Halves of a vector, 8 columns each, that one pass over a group takes: as many as registers hold.
constexpr int halves_a_pass(int rows) {
  return rows <= 2 ? 2 : 1;
}

KRAIT_AVX2_INLINE __m256i load_line(const std::byte* line) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
}
KRAIT_AVX2_INLINE __m256i broadcast_four(const std::byte* four) {
  return _mm256_set1_epi32(*reinterpret_cast<const AliasedInt*>(four));
}

/// Sums over stored weights, four k at a time by the instruction of AVX-VNNI, from where the offset cancels. Written
/// out, so that the rest need not be compiled for processors that have it.
struct Dot {
  KRAIT_AVX2_INLINE static __m256i begin(const std::byte* group) { return _mm256_set1_epi32(group_at(group).start); }
  KRAIT_AVX2_INLINE static __m256i end(__m256i sum, const std::byte*) { return sum; }
  KRAIT_AVX2_INLINE static void add_four(__m256i weights, __m256i four, __m256i& sum) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(four));
  }
};

/// Without the instruction, weights of four bits: products of pairs fit 16 bits, and so do their sums over a group.
struct PairsOfHalves {
  KRAIT_AVX2_INLINE static __m256i begin(const std::byte*) { return _mm256_setzero_si256(); }
  KRAIT_AVX2_INLINE static __m256i end(__m256i sum, const std::byte* group) {
    return _mm256_add_epi32(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)), _mm256_set1_epi32(group_at(group).start));
  }
  KRAIT_AVX2_INLINE static void add_four(__m256i weights, __m256i four, __m256i& sum) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, four));
  }
};

/// Without the instruction: the magnitudes of weights times activations that take their signs. Both are at most 127 (a
/// column without a row has 128), so that no pair of products saturates.
struct PairsOfBytes {
  KRAIT_AVX2_INLINE static __m256i begin(const std::byte*) { return _mm256_setzero_si256(); }
  KRAIT_AVX2_INLINE static __m256i end(__m256i sum, const std::byte*) { return sum; }
  KRAIT_AVX2_INLINE static void add_four(__m256i stored, __m256i four, __m256i& sum) {
    const __m256i weights = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(four, weights));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

template <class Four>
struct Int8 final : Four {
  static constexpr IntegerFormat kFormat = kInt8Format;
  template <int kRows, int kHalves>
  KRAIT_AVX2_INLINE static void add(const std::byte* a, int64_t stride, const std::byte* line,
                                    __m256i (&sums)[kRows][kHalves]) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const __m256i weights = load_line(line + h * 32);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r)
        Four::add_four(weights, broadcast_four(a + r * stride), sums[r][h]);
    }
  }
};

/// Eight k: the low halves of the bytes, then the high ones.
template <class Four>
struct Int4 final : Four {
  static constexpr IntegerFormat kFormat = kInt4Format;
  template <int kRows, int kHalves>
  KRAIT_AVX2_INLINE static void add(const std::byte* a, int64_t stride, const std::byte* line,
                                    __m256i (&sums)[kRows][kHalves]) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const __m256i mask = _mm256_set1_epi8(0x0f);
      const __m256i bytes = load_line(line + h * 32);
      const __m256i low = _mm256_and_si256(bytes, mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi32(bytes, 4), mask);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        Four::add_four(low, broadcast_four(a + r * stride), sums[r][h]);
        Four::add_four(high, broadcast_four(a + r * stride + 4), sums[r][h]);
      }
    }
  }
};

/// The scales of 8 columns: pairs of vectors lie in the two halves of one line's words.
KRAIT_AVX2_INLINE __m256 load_scales(const std::byte* from, int column) {
  const __m256i pairs = load_line(from + scale_offset(column) / 4 * 4);
  return column % 32 < 16 ? lower_bf16(pairs) : upper_bf16(pairs);
}

/// Adds one group, its columns from `column` on, to the float sums, whose rows are `width` apart.
template <class Step, int kRows, int kHalves>
KRAIT_AVX2_INLINE void add_group(const TileArgs& args, const std::byte* a, const std::byte* w, int column, float* sums,
                                 int64_t width) {
  __m256i integers[kRows][kHalves];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h)
      integers[r][h] = Step::begin(a + r * args.a_stride);
  }
  const std::byte* levels = a + sizeof(ActivationGroup);
  const std::byte* line = w + kScaleBytes + column * 4;
  for (int64_t i = 0; i < Step::kFormat.group_k; i += Step::kFormat.cell_k) {
    Step::template add<kRows, kHalves>(levels, args.a_stride, line, integers);
    levels += Step::kFormat.cell_k;
    line += kLineBytes;
  }
#pragma GCC unroll 2
  for (int h = 0; h < kHalves; ++h) {
    const __m256 column_scale = load_scales(w, column + h * 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const std::byte* const group = a + r * args.a_stride;
      float* const sum = sums + r * width + column + h * 8;
      const __m256 row_scale = _mm256_set1_ps(group_at(group).scale);
      const __m256 scale = _mm256_mul_ps(row_scale, column_scale);
      const __m256 integer = _mm256_cvtepi32_ps(Step::end(integers[r][h], group));
      _mm256_store_ps(sum, _mm256_fmadd_ps(scale, integer, _mm256_load_ps(sum)));
    }
  }
}

template <class Step>
struct Tile final {
  template <int kRows, int kVectors>
  KRAIT_AVX2 static void run(const TileArgs& args) {
    constexpr int kHalves = halves_a_pass(kRows);
    constexpr int kColumns = kVectors * kVectorColumns;
    TileSums<kRows, kColumns> tile;
    const auto* a = static_cast<const std::byte*>(args.a);
    const std::byte* w = args.panel;
    int leaf = 0;
    do {
      std::fill_n(tile.sums, tile.kCount, 0.0f);
      for (int64_t k = 0; k < args.leaf_k; k += Step::kFormat.group_k) {
        for (int column = 0; column < kColumns; column += kHalves * 8)
          add_group<Step, kRows, kHalves>(args, a, w, column, tile.sums, kColumns);
        a += static_cast<int64_t>(sizeof(ActivationGroup)) + Step::kFormat.group_k;
        w += kScaleBytes + Step::kFormat.group_k / Step::kFormat.cell_k * kLineBytes;
      }
      tile.add_to_tree(leaf, args.leaves);
    } while (++leaf < args.leaves);
    tile.write_out(args);
  }
};

template <class Step>
KRAIT_AVX2 void quantize(const float* from, int leaves, int64_t leaf_k, int64_t, std::byte* to) {
  quantize_row<Step::kFormat>(from, leaves, leaf_k, to);
}

template <class Step>
constexpr TileTable make_table() {
  return make_tile_table<Tile<Step>>(quantize<Step>, 1);
}

}  // namespace

constinit const TileTable kAvx2Int8 = make_table<Int8<PairsOfBytes>>();
constinit const TileTable kAvx2Int4 = make_table<Int4<PairsOfHalves>>();
constinit const TileTable kAvx2Int8Dot = make_table<Int8<Dot>>();
constinit const TileTable kAvx2Int4Dot = make_table<Int4<Dot>>();

}  // namespace krait::kernels

#endif  // __x86_64__
