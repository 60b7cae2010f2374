// AVX-512 tiles: up to 6 x 64 accumulators in registers, weights in whole lines, activations broadcast.
#if defined(__x86_64__)

#include "kernels/gemm/bf16_rounding.h"
#include "kernels/gemm/gemm_avx512_sums.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/gemm_x86.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::kernels {
namespace {

// The accumulating instructions are written out: as intrinsics, g++ 12 keeps some accumulators on the stack.
KRAIT_AVX512_INLINE void fma_into(__m512& sum, __m512 a, __m512 w) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(w));
}
KRAIT_AVX512_INLINE void dot_into(__m512& sum, __m512i a, __m512i w) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(w));
}
KRAIT_AVX512_INLINE __m512 broadcast(const float* value) {
  __m512 wide;
  asm("vbroadcastss %1, %0" : "=v"(wide) : "m"(*value));
  return wide;
}

/// One step of k: one f32 of each row times one line of each vector.
struct F32Step final {
  using Activation = float;
  static constexpr int kStepK = 1;

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const Activation* a, int64_t stride, const std::byte* w,
                                      __m512 (&sums)[kRows][kVectors]) {
    __m512 weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = _mm512_load_ps(w + v * 64);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = broadcast(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        fma_into(sums[r][v], value, weights[v]);
    }
  }
};

/// One pair of k, by the instruction for it.
struct DotStep final {
  using Activation = uint16_t;
  static constexpr int kStepK = 2;

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const Activation* a, int64_t stride, const std::byte* w,
                                      __m512 (&sums)[kRows][kVectors]) {
    __m512i weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      weights[v] = _mm512_load_si512(w + v * 64);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i pair = broadcast_cell(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        dot_into(sums[r][v], pair, weights[v]);
    }
  }
};

/// One pair of k, widened: the odd k first, as the instruction has it.
struct WidenedStep final {
  using Activation = float;
  static constexpr int kStepK = 2;

  template <int kRows, int kVectors>
  KRAIT_AVX512_INLINE static void add(const Activation* a, int64_t stride, const std::byte* w,
                                      __m512 (&sums)[kRows][kVectors]) {
    __m512 odd[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      odd[v] = upper_bf16(_mm512_load_si512(w + v * 64));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = broadcast(a + r * stride + 1);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        fma_into(sums[r][v], value, odd[v]);
    }
    __m512 even[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      even[v] = lower_bf16(_mm512_load_si512(w + v * 64));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 value = broadcast(a + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        fma_into(sums[r][v], value, even[v]);
    }
  }
};

template <class Step>
struct Tile final {
  template <int kRows, int kVectors>
  KRAIT_AVX512 static void run(const TileArgs& args) {
    alignas(64) float waiting[kMaxTreeDepth][kRows * kVectors * 16];
    __m512 sums[kRows][kVectors];
    const auto* a = static_cast<const typename Step::Activation*>(args.a);
    const std::byte* w = args.panel;
    const std::byte* prefetch = args.prefetch;
    const int64_t steps = args.leaf_k / Step::kStepK;
    int depth = 0;
    int leaf = 0;
    do {
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] = _mm512_setzero_ps();
      }
      for (int64_t step = 0; step < steps; ++step) {
        _mm_prefetch(reinterpret_cast<const char*>(prefetch), _MM_HINT_T1);
        Step::template add<kRows, kVectors>(a, args.a_stride, w, sums);
        a += Step::kStepK;
        w += kLineBytes;
        prefetch += args.prefetch_bytes;
      }
      add_to_tree<kRows, kVectors>(leaf, args.leaves, depth, waiting, sums);
    } while (++leaf < args.leaves);
    write_out<kRows, kVectors>(args, 0, sums);
  }
};

KRAIT_AVX512 void round_to_float(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<float*>(to));
}
KRAIT_AVX512 void round_to_half(const float* from, int leaves, int64_t leaf_k, int64_t padded_leaf_k, std::byte* to) {
  round_row(from, leaves, leaf_k, padded_leaf_k, reinterpret_cast<uint16_t*>(to));
}

template <class Step>
constexpr TileTable make_table(RoundFunction round) {
  return make_tile_table<Tile<Step>>(round, sizeof(typename Step::Activation));
}

}  // namespace

constinit const TileTable kAvx512F32 = make_table<F32Step>(nullptr);
constinit const TileTable kAvx512Bf16Widened = make_table<WidenedStep>(round_to_float);
constinit const TileTable kAvx512Bf16Dot = make_table<DotStep>(round_to_half);

}  // namespace krait::kernels

#endif  // __x86_64__
