// Asking for memory before it is needed.
#pragma once

#include <cstdint>

namespace krait::kernels {

/// Brings the line of base[offset] near the core. Past the end of a buffer it does nothing; the address is made of
/// integers because no pointer may go there.
__attribute__((always_inline)) inline void prefetch(const float* base, int64_t offset) {
  const auto bytes = static_cast<uintptr_t>(offset) * sizeof(float);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read through it
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(base) + bytes));
}

}  // namespace krait::kernels
