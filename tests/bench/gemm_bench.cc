// The matrix product against what this machine can do: share of the peak of its multiply-add instructions for many
// rows, share of its read rate for one. Prints a table; judges nothing.
//
//   gemm_bench [threads] [path] [type of the weights]
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "kernels/device/arena.h"
#include "kernels/gemm/gemm.h"

namespace krait::kernels {
namespace {

struct Shape final {
  const char* name;
  int64_t n;
  int64_t k;
  int leaves;
};

constexpr Shape kShapes[] = {
    {"130m in_proj", 3072, 768, 1},  {"130m x_proj", 80, 1536, 8},     {"130m dt_proj", 1536, 48, 1},
    {"130m out_proj", 768, 1536, 8}, {"370m in_proj", 4096, 1024, 1},  {"370m x_proj", 96, 2048, 8},
    {"370m dt_proj", 2048, 64, 1},   {"370m out_proj", 1024, 2048, 8}, {"130m lm_head", 50280, 768, 1}};
constexpr int64_t kRows[] = {1, 8, 32, 512};
constexpr int64_t kWeightSetBytes = 256 * kMiB;  // a step walks through a model, not again and again through one matrix

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Seconds that a tenth of many calls stay below: others share this machine, and the very fastest call may be an error
/// of its clock. A single thread is timed by what it ran, not by what it waited.
template <class Work>
double best_seconds(const Stream& stream, double budget_seconds, Work work) {
  const clockid_t clock = stream.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> calls;
  const double start = seconds_of(CLOCK_MONOTONIC);
  while (calls.size() < 3 || seconds_of(CLOCK_MONOTONIC) - start < budget_seconds) {
    const double begin = seconds_of(clock);
    work();
    calls.push_back(seconds_of(clock) - begin);
  }
  const auto tenth = calls.begin() + static_cast<std::ptrdiff_t>(calls.size() / 10);
  std::nth_element(calls.begin(), tenth, calls.end());
  return *tenth;
}

constexpr int kChains = 20;  // independent sums: more than two units of latency four need
constexpr int kChainsAvx2 = 12;
constexpr int64_t kPeakRounds = 10'000;

#if defined(__x86_64__)
// Unrolled and without loops over references, or g++ 12 keeps the sums in memory.
__attribute__((target("avx512f"))) void chains_f32_avx512() {
  __m512 sums[kChains];
  const __m512 zero = _mm512_setzero_ps();
#pragma GCC unroll 20
  for (int i = 0; i < kChains; ++i)
    sums[i] = zero;
  for (int64_t round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kChains; ++i)
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sums[i]) : "v"(zero));
  }
}

__attribute__((target("avx512f"))) void chains_dot_avx512() {
  __m512 sums[kChains];
  const __m512 zero = _mm512_setzero_ps();
#pragma GCC unroll 20
  for (int i = 0; i < kChains; ++i)
    sums[i] = zero;
  for (int64_t round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kChains; ++i)
      asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sums[i]) : "v"(zero));
  }
}

__attribute__((target("avx512f"))) void chains_vnni_avx512() {
  __m512i sums[kChains];
  const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 20
  for (int i = 0; i < kChains; ++i)
    sums[i] = zero;
  for (int64_t round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kChains; ++i)
      asm volatile("vpdpbusd %1, %1, %0" : "+v"(sums[i]) : "v"(zero));
  }
}

__attribute__((target("avx2"))) void chains_f32_avx2() {
  __m256 sums[kChainsAvx2];
  const __m256 zero = _mm256_setzero_ps();
#pragma GCC unroll 12
  for (int i = 0; i < kChainsAvx2; ++i)
    sums[i] = zero;
  for (int64_t round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChainsAvx2; ++i)
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sums[i]) : "v"(zero));
  }
}
#endif

double chains_gops(Stream& stream, void (*chains)(), double operations) {
  const double seconds = best_seconds(stream, 0.1, [&] { stream.run([&](int) { chains(); }); });
  return operations * static_cast<double>(kPeakRounds * stream.threads()) / seconds * 1e-9;
}

/// Operations (a multiply-add is two) a nanosecond of the team, all operands in registers, by the fastest instruction;
/// 0 where this file knows none.
double peak_gops(Stream& stream, DType dtype) {
#if defined(__x86_64__)
  if (stream.path() == CpuPath::kPortable) return 0;
  if (stream.path() == CpuPath::kAvx2 && is_quantized(dtype)) return 0;
  if (stream.path() == CpuPath::kAvx2) return chains_gops(stream, chains_f32_avx2, 2 * 8 * kChainsAvx2);
  const double plain = chains_gops(stream, chains_f32_avx512, 2 * 16 * kChains);
  if (is_quantized(dtype)) {
    const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
    return vnni ? chains_gops(stream, chains_vnni_avx512, 2 * 64 * kChains) : 0;
  }
  if (stream.path() == CpuPath::kAvx512 || dtype == DType::kF32) return plain;
  return std::max(plain, chains_gops(stream, chains_dot_avx512, 2 * 32 * kChains));
#else
  (void)stream, (void)dtype;
  return 0;
#endif
}

/// Bytes a nanosecond that the team reads from a set of weights.
double read_gbytes(Stream& stream, const std::byte* data, int64_t bytes) {
  std::vector<uint64_t> sums(static_cast<size_t>(stream.threads()) * 8);
  const double seconds = best_seconds(stream, 0.5, [&] {
    stream.run([&](int worker) {
      const auto* const words = reinterpret_cast<const uint64_t*>(data);
      const int64_t begin = bytes / 64 * worker / stream.threads() * 8;
      const int64_t end = bytes / 64 * (worker + 1) / stream.threads() * 8;
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
  return static_cast<double>(bytes) / seconds * 1e-9;
}

std::byte* must_allocate(Arena& arena, int64_t bytes) {
  Result<std::byte*> data = arena.allocate(bytes);
  CHECK(data.ok());
  return *data;
}

void fill(std::vector<float>& values, uint64_t seed) {
  SplitMix64 random(seed);
  for (float& value : values)
    value = static_cast<float>(random.uniform() - 0.5);
}

void bench_shape(Stream& stream, const Shape& shape, DType dtype, double peak, double read_rate) {
  Arena arena;
  const int64_t bytes = packed_bytes(dtype, shape.n, shape.k, shape.leaves);
  std::vector<PackedMatrix> set(static_cast<size_t>(std::clamp<int64_t>(kWeightSetBytes / bytes, 1, 1000)));
  std::vector<float> row(static_cast<size_t>(shape.k));
  fill(row, 1);
  for (PackedMatrix& weights : set) {
    weights = {dtype, shape.n, shape.k, shape.leaves, must_allocate(arena, bytes)};
    for (int64_t i = 0; i < shape.n; ++i)
      pack_row(weights, i, row.data());
  }
  const int64_t max_rows = kRows[std::size(kRows) - 1];
  std::vector<float> a(static_cast<size_t>(max_rows * shape.k));
  std::vector<float> out(static_cast<size_t>(max_rows * shape.n));
  fill(a, 2);
  const int64_t workspace_bytes = gemm_workspace_bytes(max_rows, shape.k, dtype);
  const std::span<std::byte> workspace(must_allocate(arena, workspace_bytes), static_cast<size_t>(workspace_bytes));
  for (const int64_t m : kRows) {
    size_t next = 0;
    const auto once = [&] {
      gemm(stream, {.a = a.data(),
                    .lda = shape.k,
                    .m = m,
                    .weights = &set[next],
                    .out = out.data(),
                    .ldo = shape.n,
                    .workspace = workspace});
      next = (next + 1) % set.size();
    };
    // One row: the whole set is a call, so that every weight comes from memory. Else the best of single calls.
    const double seconds = m == 1 ? best_seconds(stream, 0.3,
                                                 [&] {
                                                   for (size_t i = 0; i < set.size(); ++i)
                                                     once();
                                                 }) /
                                        static_cast<double>(set.size())
                                  : best_seconds(stream, 0.2, once);
    const double gops = 2.0 * static_cast<double>(m * shape.n * shape.k) / seconds * 1e-9;
    std::printf("%-14s %-4s %4d %10.1f us %8.1f Gop/s", shape.name, std::string(weight_type_name(dtype)).c_str(),
                static_cast<int>(m), seconds * 1e6, gops);
    if (peak > 0) std::printf(" %5.1f %% of peak", gops / peak * 100);
    if (m == 1) {
      const double rate = static_cast<double>(bytes) / seconds * 1e-9;
      std::printf(" %6.1f GB/s %5.1f %% of reading", rate, rate / read_rate * 100);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace krait::kernels

int main(int argc, char** argv) {
  using namespace krait;
  using namespace krait::kernels;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::optional<CpuPath> path = argc > 2 ? cpu_path_from_name(argv[2]) : best_cpu_path();
  const std::optional<DType> only = argc > 3 ? weight_type_from_name(argv[3]) : std::nullopt;
  if (threads < 1 || threads > 256 || !path || *path > best_cpu_path() || (argc > 3 && !only)) {
    std::fprintf(stderr, "usage: gemm_bench [threads] [path that this processor has] [f32|bf16|int8|int4]\n");
    return 2;
  }
  Stream stream({.threads = threads, .path = *path});
  Arena arena;
  std::byte* const data = must_allocate(arena, kWeightSetBytes);
  std::memset(data, 1, static_cast<size_t>(kWeightSetBytes));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    if (only && dtype != *only) continue;
    const double peak = peak_gops(stream, dtype);
    const double read_rate = read_gbytes(stream, data, kWeightSetBytes);
    std::printf("%s, %d threads, %s: peak %.1f Gop/s, reading %.1f GB/s\n", std::string(cpu_path_name(*path)).c_str(),
                threads, std::string(weight_type_name(dtype)).c_str(), peak, read_rate);
    for (const Shape& shape : kShapes)
      bench_shape(stream, shape, dtype, peak, read_rate);
  }
  return 0;
}
