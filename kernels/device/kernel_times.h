// Where a stream's time goes, by the folder that a kernel is from. Nobody asks in production: then nothing is measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace krait::kernels {

enum class KernelKind : uint8_t { kGemm, kScan, kConv, kNorm, kAttention, kPointwise, kSampling };

/// By kind.
inline constexpr auto kKernelKindNames =
    std::to_array<std::string_view>({"gemm", "scan", "conv", "norm", "attention", "pointwise", "sampling"});
inline constexpr size_t kKernelKinds = kKernelKindNames.size();

/// Of all kernels that a stream has run while it was told to fill this.
struct KernelTimes final {
  std::array<int64_t, kKernelKinds> ns{};  // by kind: wall time of the thread that calls kernels
};

}  // namespace krait::kernels
