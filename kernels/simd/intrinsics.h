// <immintrin.h> without a false alarm: GCC 12 takes the deliberately undefined operand inside its AVX-512 intrinsics
// for a mistake of the caller (GCC bug 105593).
#pragma once

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
