// Compiles one body for every instruction path. A file NAME_cpu.cc says
//   #define KRAIT_SIMD_BODY "kernels/ROOM/NAME.inc"
//   #include "kernels/simd/foreach_path.h"
// and the body, written against F32 and its functions, lands in the namespaces krait::kernels::portable, ::avx2 and
// ::avx512, each compiled for its instructions. KRAIT_SIMD_CALL picks one at run time.
//
// Why inclusion and not templates or files with their own compile options: GCC inlines an intrinsic only into a
// function that is itself compiled for its instructions, and a template's argument cannot carry that; and a file
// compiled for AVX-512 as a whole also emits AVX-512 copies of inline functions of the standard library, one of which
// the linker may pick for everybody.
#pragma once

#ifndef KRAIT_SIMD_BODY
#error "define KRAIT_SIMD_BODY before this header"
#endif

#include "kernels/device/cpu_path.h"
#include "kernels/simd/f32x16_portable.h"

namespace krait::kernels::portable {
#include "kernels/simd/vector_math.inc"
#include KRAIT_SIMD_BODY
}  // namespace krait::kernels::portable

#if defined(__x86_64__)
#include "kernels/simd/f32x16_avx2.h"
#include "kernels/simd/f32x16_avx512.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace krait::kernels::avx2 {
#include "kernels/simd/vector_math.inc"
#include KRAIT_SIMD_BODY
}  // namespace krait::kernels::avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")
namespace krait::kernels::avx512 {
#include "kernels/simd/vector_math.inc"
#include KRAIT_SIMD_BODY
}  // namespace krait::kernels::avx512
#pragma GCC pop_options

/// The result of function(arguments...) on the given path.
#define KRAIT_SIMD_CALL(path, function, ...)                                                      \
  ((path) >= ::krait::kernels::CpuPath::kAvx512 ? ::krait::kernels::avx512::function(__VA_ARGS__) \
   : (path) == ::krait::kernels::CpuPath::kAvx2 ? ::krait::kernels::avx2::function(__VA_ARGS__)   \
                                                : ::krait::kernels::portable::function(__VA_ARGS__))
#else
#define KRAIT_SIMD_CALL(path, function, ...) \
  (static_cast<void>(path), ::krait::kernels::portable::function(__VA_ARGS__))
#endif
