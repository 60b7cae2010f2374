#include "kernels/device/cpu_path.h"

#include <array>

namespace krait::kernels {
namespace {

constexpr auto kNames = std::to_array<std::string_view>({"portable", "avx2", "avx512", "avx512_bf16"});

}  // namespace

CpuPath best_cpu_path() {
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks whether the operating system saves the wide registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return CpuPath::kAvx512Bf16;
  if (avx512) return CpuPath::kAvx512;
  if (avx2) return CpuPath::kAvx2;
#endif
  return CpuPath::kPortable;
}

std::string_view cpu_path_name(CpuPath path) {
  return kNames.at(static_cast<size_t>(path));
}

std::optional<CpuPath> cpu_path_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<CpuPath>(i);
  }
  return std::nullopt;
}

}  // namespace krait::kernels
