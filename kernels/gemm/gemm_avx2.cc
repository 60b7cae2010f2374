// AVX2 tiles: 6 x 16 accumulators in registers, a panel in up to four passes of 16 columns.
#if defined(__x86_64__)

#include <immintrin.h>

#include <utility>

#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/gemm_tile.h"

#define KRAIT_AVX2 __attribute__((target("avx2,fma")))
#define KRAIT_AVX2_INLINE KRAIT_AVX2 __attribute__((always_inline)) inline

namespace krait::kernels {
namespace {

constexpr int64_t kStepBytes = 256;  // of a panel: 64 cells of 4 bytes
constexpr int kHalves = 2;           // of 8 columns: a vector of 16

/// One k of every row times 16 columns.
template <int kRows>
KRAIT_AVX2_INLINE void fma_rows(const float* a, int64_t stride, __m256 low, __m256 high,
                                __m256 (&sums)[kRows][kHalves]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 value = _mm256_broadcast_ss(a + r * stride);
    sums[r][0] = _mm256_fmadd_ps(value, low, sums[r][0]);
    sums[r][1] = _mm256_fmadd_ps(value, high, sums[r][1]);
  }
}

struct F32Step final {
  static constexpr int kStepK = 1;

  template <int kRows>
  KRAIT_AVX2_INLINE static void add(const float* a, int64_t stride, const std::byte* w,
                                    __m256 (&sums)[kRows][kHalves]) {
    const auto* const weights = reinterpret_cast<const float*>(w);
    fma_rows<kRows>(a, stride, _mm256_load_ps(weights), _mm256_load_ps(weights + 8), sums);
  }
};

/// One pair of k, widened to float: the odd k first, as vdpbf16ps has it.
struct Bf16Step final {
  static constexpr int kStepK = 2;

  template <int kRows>
  KRAIT_AVX2_INLINE static void add(const float* a, int64_t stride, const std::byte* w,
                                    __m256 (&sums)[kRows][kHalves]) {
    const auto* const pairs = reinterpret_cast<const __m256i*>(w);
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    fma_rows<kRows>(a + 1, stride, _mm256_castsi256_ps(_mm256_and_si256(_mm256_load_si256(pairs), upper)),
                    _mm256_castsi256_ps(_mm256_and_si256(_mm256_load_si256(pairs + 1), upper)), sums);
    fma_rows<kRows>(a, stride, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_load_si256(pairs), 16)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_load_si256(pairs + 1), 16)), sums);
  }
};

/// Adds the waiting left neighbours of a finished leaf; keeps the sum waiting unless it is the last leaf.
template <int kRows>
KRAIT_AVX2_INLINE void add_to_tree(int leaf, int leaves, int& depth, float (*waiting)[kRows * kVectorColumns],
                                   __m256 (&sums)[kRows][kHalves]) {
  // Leaf number 0b..0111 completes three subtrees: each trailing one is a waiting left neighbour.
  for (int ones = leaf; (ones & 1) != 0; ones >>= 1) {
    const float* const left = waiting[--depth];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int h = 0; h < kHalves; ++h) {
        sums[r][h] = _mm256_add_ps(_mm256_load_ps(left + (r * kHalves + h) * 8), sums[r][h]);
      }
    }
  }
  if (leaf + 1 == leaves) return;
  float* const keep = waiting[depth++];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h)
      _mm256_store_ps(keep + (r * kHalves + h) * 8, sums[r][h]);
  }
}

template <int kRows>
KRAIT_AVX2_INLINE void write_out(const TileArgs& args, int vector, __m256 (&sums)[kRows][kHalves]) {
  const int column = vector * kVectorColumns;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      float* const out = args.out + r * args.ldo + column + h * 8;
      __m256 sum = sums[r][h];
      if (args.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(args.bias + column + h * 8));
      if (args.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(out), sum);
      _mm256_storeu_ps(out, sum);
    }
  }
}

template <class Step, int kRows>
KRAIT_AVX2 void tile(const TileArgs& args) {
  alignas(64) float waiting[kMaxTreeDepth][kRows * kVectorColumns];
  const int64_t steps = args.leaf_k / Step::kStepK;
  for (int vector = 0; vector < args.vectors; ++vector) {
    __m256 sums[kRows][kHalves];
    const auto* a = static_cast<const float*>(args.a);
    const std::byte* w = args.panel + vector * 64;
    int depth = 0;
    int leaf = 0;
    do {
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
      for (int64_t step = 0; step < steps; ++step) {
        Step::template add<kRows>(a, args.a_stride, w, sums);
        a += Step::kStepK;
        w += kStepBytes;
      }
      add_to_tree<kRows>(leaf, args.leaves, depth, waiting, sums);
    } while (++leaf < args.leaves);
    write_out<kRows>(args, vector, sums);
  }
}

KRAIT_AVX2 void round(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<float*>(to));
}

template <class Step, int... kRow>
constexpr TileTable make_table(RoundFunction round_function, std::integer_sequence<int, kRow...>) {
  TileTable table;
  table.round = round_function;
  for (int v = 0; v < kTileVectors; ++v)
    ((table.tile[kRow][v] = tile<Step, kRow + 1>), ...);
  return table;
}

using Rows = std::make_integer_sequence<int, kTileRows>;

}  // namespace

constinit const TileTable kAvx2F32 = make_table<F32Step>(nullptr, Rows());
constinit const TileTable kAvx2Bf16 = make_table<Bf16Step>(round, Rows());

}  // namespace krait::kernels

#endif  // __x86_64__
