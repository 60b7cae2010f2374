// The instruction path of the CPU backend. It is an argument, never a global: ranks of one group agree on the lowest
// common path when they form, so that a mixed cluster still gives the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace krait::kernels {

/// In order of preference; each implies those before it.
enum class CpuPath : uint8_t {
  kPortable = 0,    // plain C++, fused multiply-add through std::fma
  kAvx2 = 1,        // AVX2 and FMA
  kAvx512 = 2,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16 = 3,  // and AVX512_BF16
};

/// The best path that this processor and operating system can run.
CpuPath best_cpu_path();

/// "portable", "avx2", "avx512", "avx512_bf16", and back.
std::string_view cpu_path_name(CpuPath path);
std::optional<CpuPath> cpu_path_from_name(std::string_view name);

}  // namespace krait::kernels
