// AVX2 tiles: 6 x 16 accumulators in registers, a panel in as many passes as that takes.
#if defined(__x86_64__)

#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/gemm_x86.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

/// Halves of a vector, 8 columns each, that one pass over a panel takes: as many as registers hold, because every pass
/// reads the panel's lines again.
constexpr int halves_a_pass(int rows, int vectors) {
  if (rows == 1) return 2 * vectors;
  return rows == 2 && vectors % 2 == 0 ? 4 : 2;
}

/// One k of every row times the columns of a pass.
template <int kRows, int kHalves>
KRAIT_AVX2_INLINE void fma_rows(const float* a, int64_t stride, const __m256 (&w)[kHalves],
                                __m256 (&sums)[kRows][kHalves]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 value = _mm256_broadcast_ss(a + r * stride);
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h)
      sums[r][h] = _mm256_fmadd_ps(value, w[h], sums[r][h]);
  }
}

struct F32Step final {
  static constexpr int kStepK = 1;

  template <int kRows, int kHalves>
  KRAIT_AVX2_INLINE static void add(const float* a, int64_t stride, const std::byte* line,
                                    __m256 (&sums)[kRows][kHalves]) {
    __m256 w[kHalves];
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h)
      w[h] = _mm256_load_ps(reinterpret_cast<const float*>(line) + h * 8);
    fma_rows<kRows, kHalves>(a, stride, w, sums);
  }
};

/// One pair of k, widened to float: the odd k first, as vdpbf16ps has it.
struct Bf16Step final {
  static constexpr int kStepK = 2;

  template <int kRows, int kHalves>
  KRAIT_AVX2_INLINE static void add(const float* a, int64_t stride, const std::byte* line,
                                    __m256 (&sums)[kRows][kHalves]) {
    const auto* const pairs = reinterpret_cast<const __m256i*>(line);
    __m256 w[kHalves];
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h)
      w[h] = upper_bf16(_mm256_load_si256(pairs + h));
    fma_rows<kRows, kHalves>(a + 1, stride, w, sums);
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h)
      w[h] = lower_bf16(_mm256_load_si256(pairs + h));
    fma_rows<kRows, kHalves>(a, stride, w, sums);
  }
};

/// Adds the waiting left neighbours of a finished leaf; keeps the sum waiting unless it is the last leaf.
template <int kRows, int kHalves>
KRAIT_AVX2_INLINE void add_to_tree(int leaf, int leaves, int& depth, float (*waiting)[kRows * kHalves * 8],
                                   __m256 (&sums)[kRows][kHalves]) {
  // Leaf number 0b..0111 completes three subtrees: each trailing one is a waiting left neighbour.
  for (int ones = leaf; (ones & 1) != 0; ones >>= 1) {
    const float* const left = waiting[--depth];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int h = 0; h < kHalves; ++h) {
        sums[r][h] = _mm256_add_ps(_mm256_load_ps(left + (r * kHalves + h) * 8), sums[r][h]);
      }
    }
  }
  if (leaf + 1 == leaves) return;
  float* const keep = waiting[depth++];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h)
      _mm256_store_ps(keep + (r * kHalves + h) * 8, sums[r][h]);
  }
}

template <int kRows, int kHalves>
KRAIT_AVX2_INLINE void write_out(const TileArgs& args, int column, __m256 (&sums)[kRows][kHalves]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int h = 0; h < kHalves; ++h) {
      float* const out = args.out + r * args.ldo + column + h * 8;
      __m256 sum = sums[r][h];
      if (args.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(args.bias + column + h * 8));
      if (args.accumulate) sum = _mm256_add_ps(_mm256_loadu_ps(out), sum);
      _mm256_storeu_ps(out, sum);
    }
  }
}

template <class Step>
struct Tile final {
  template <int kRows, int kVectors>
  KRAIT_AVX2 static void run(const TileArgs& args) {
    constexpr int kHalves = halves_a_pass(kRows, kVectors);
    alignas(64) float waiting[kMaxTreeDepth][kRows * kHalves * 8];
    const int64_t steps = args.leaf_k / Step::kStepK;
    for (int column = 0; column < kVectors * kVectorColumns; column += kHalves * 8) {
      __m256 sums[kRows][kHalves];
      const auto* a = static_cast<const float*>(args.a);
      const std::byte* line = args.panel + column * 4;
      int depth = 0;
      int leaf = 0;
      do {
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
          for (int h = 0; h < kHalves; ++h)
            sums[r][h] = _mm256_setzero_ps();
        }
        for (int64_t step = 0; step < steps; ++step) {
          Step::template add<kRows, kHalves>(a, args.a_stride, line, sums);
          a += Step::kStepK;
          line += kLineBytes;
        }
        add_to_tree<kRows, kHalves>(leaf, args.leaves, depth, waiting, sums);
      } while (++leaf < args.leaves);
      write_out<kRows, kHalves>(args, column, sums);
    }
  }
};

KRAIT_AVX2 void round(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<float*>(to));
}

}  // namespace

constinit const TileTable kAvx2F32 = make_tile_table<Tile<F32Step>>(nullptr, sizeof(float));
constinit const TileTable kAvx2Bf16 = make_tile_table<Tile<Bf16Step>>(round, sizeof(float));

}  // namespace krait::kernels

#endif  // __x86_64__
