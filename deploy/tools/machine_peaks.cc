#include "deploy/tools/machine_peaks.h"

#include "kernels/device/cpu_path.h"
#include "kernels/gemm/packed_matrix.h"

namespace krait::tools {
namespace {

using kernels::CpuPath;
using kernels::Stream;

constexpr int64_t kPeakRounds = 400'000;  // about a millisecond, beside which waking a thread counts for little

#if defined(__x86_64__)
constexpr int kChains = 20;  // independent sums: more than two units of latency four need
constexpr int kChainsAvx2 = 12;

using Lanes512 = float __attribute__((vector_size(64)));
using Lanes256 = float __attribute__((vector_size(32)));

// Unrolled and without loops over references, or g++ 12 keeps the sums in memory. Zeros in float are zeros in every
// type.
#define KRAIT_CHAINS(name, isa, lanes, chains, unroll, instruction)                                  \
  __attribute__((target(isa))) void name() {                                                         \
    lanes sums[chains];                                                                              \
    const lanes zero{};                                                                              \
    _Pragma(unroll) for (int i = 0; i < (chains); ++i) sums[i] = zero;                               \
    for (int64_t round = 0; round < kPeakRounds; ++round) {                                          \
      _Pragma(unroll) for (int i = 0; i < (chains);                                                  \
                           ++i) asm volatile(instruction " %1, %1, %0" : "+v"(sums[i]) : "v"(zero)); \
    }                                                                                                \
  }
KRAIT_CHAINS(chains_f32_avx512, "avx512f", Lanes512, kChains, "GCC unroll 20", "vfmadd231ps")
KRAIT_CHAINS(chains_dot_avx512, "avx512f", Lanes512, kChains, "GCC unroll 20", "vdpbf16ps")
KRAIT_CHAINS(chains_vnni_avx512, "avx512f", Lanes512, kChains, "GCC unroll 20", "vpdpbusd")
KRAIT_CHAINS(chains_f32_avx2, "avx2", Lanes256, kChainsAvx2, "GCC unroll 12", "vfmadd231ps")
#undef KRAIT_CHAINS

double chains_gops(Stream& stream, void (*chains)(), double operations) {
  const double seconds = best_seconds(stream, 0.1, [&] { stream.run([&](int) { chains(); }); });
  return operations * static_cast<double>(kPeakRounds * stream.threads()) / seconds * 1e-9;
}
#endif

}  // namespace

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double peak_gops(Stream& stream, DType dtype) {
#if defined(__x86_64__)
  const bool quantized = kernels::is_quantized(dtype);
  if (stream.path() == CpuPath::kPortable) return 0;
  if (stream.path() == CpuPath::kAvx2 && quantized) return 0;
  if (stream.path() == CpuPath::kAvx2) return chains_gops(stream, chains_f32_avx2, 2 * 8 * kChainsAvx2);
  if (quantized) {
    const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
    return vnni ? chains_gops(stream, chains_vnni_avx512, 2 * 64 * kChains) : 0;
  }
  const double plain = chains_gops(stream, chains_f32_avx512, 2 * 16 * kChains);
  if (stream.path() == CpuPath::kAvx512 || dtype == DType::kF32) return plain;
  return std::max(plain, chains_gops(stream, chains_dot_avx512, 2 * 32 * kChains));
#else
  (void)stream, (void)dtype;
  return 0;
#endif
}

double read_gbytes(Stream& stream, std::span<const std::byte> data, double seconds) {
  const auto lines = static_cast<int64_t>(data.size()) / 64;
  std::vector<uint64_t> sums(static_cast<size_t>(stream.threads()) * 8);
  const double best = best_seconds(stream, seconds, [&] {
    stream.run([&](int worker) {
      const auto* const words = reinterpret_cast<const uint64_t*>(data.data());
      const int64_t begin = lines * worker / stream.threads() * 8;
      const int64_t end = lines * (worker + 1) / stream.threads() * 8;
      uint64_t lanes[8] = {};
      for (int64_t i = begin; i < end; i += 8) {
        for (int lane = 0; lane < 8; ++lane)
          lanes[lane] ^= words[i + lane];
      }
      for (const uint64_t lane : lanes)
        sums[static_cast<size_t>(worker) * 8] ^= lane;
    });
  });
  volatile uint64_t keep = sums[0];
  (void)keep;
  return static_cast<double>(lines * 64) / best * 1e-9;
}

}  // namespace krait::tools
