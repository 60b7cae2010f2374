// Rows of floats in fewer bits, and back: what a sum over ranks travels as. A row is cut into groups from its own first
// element on, so that its bytes depend on nothing around it; the last group may be short.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/cpu_path.h"

namespace krait::kernels {

/// For a group of integers: scale = max |x| / limit, rounded up to bf16, at least 2^-126; q = x / scale, nearest, ties
/// to even, within -limit .. limit; the value that comes back is q * scale. A group in which anything is not finite
/// comes back as NaNs. Bytes: the scale (bf16, little-endian), then the group's q.
enum class RowFormat : uint8_t {
  kBf16,  // nearest, ties to even; an infinity stays one, a NaN a NaN
  kInt8,  // groups of 128, limit 127, a signed byte each
  kInt4,  // groups of 32, limit 7; byte i holds q[i] + 8 and, in its high half, q[i + 16] + 8
};

/// Groups and rotations never straddle a multiple of this many elements: a row may be cut there.
inline constexpr int64_t kCodecBlock = 128;

/// Bytes of `count` elements from a multiple of kCodecBlock on.
int64_t encoded_bytes(RowFormat format, int64_t count);

/// out[encoded_bytes] of x[count].
void encode_row(CpuPath path, RowFormat format, const float* x, int64_t count, std::byte* out);
/// x[count] of what encode_row wrote. Any bytes give some floats.
void decode_row(CpuPath path, RowFormat format, const std::byte* in, int64_t count, float* x);

/// A Hadamard rotation in place: blocks of 128, then of the rest the blocks of 64, 32 and 16 that it has; fewer than 16
/// elements at the end stay. One large element becomes many small ones, which costs its group less. Back undoes it up
/// to rounding: factors are powers of two, exact, half of each block's 1 / size on the way out and the rest on the way
/// back.
void rotate_row(CpuPath path, float* x, int64_t count);
void rotate_row_back(CpuPath path, float* x, int64_t count);

// Plainly, one element at a time. For tests.
void encode_row_reference(RowFormat format, const float* x, int64_t count, std::byte* out);
void decode_row_reference(RowFormat format, const std::byte* in, int64_t count, float* x);
void rotate_row_reference(float* x, int64_t count);
void rotate_row_back_reference(float* x, int64_t count);

}  // namespace krait::kernels
