// The selective scan of Mamba-1 with its gate, and the state that carries it from call to call.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/stream.h"
#include "kernels/scan/runs.h"

namespace krait::kernels {

/// For each row of a run in order and each channel c (Gu, Dao: "Mamba", 2023, algorithm 2, and its gate):
///   dt   = softplus(dt_raw[t][c] + dt_bias[c])                        softplus(v) = log(1 + exp(v))
///   h[n] = 2^(dt * a[c][n]) * h[n] + (dt * x[t][c]) * b[t][n]         n in [0, N)
///   y    = (sum over even n + sum over odd n, of c[t][n] * h[n]) + d[c] * x[t][c]
///   out[t][c] = y * silu(z[t][c])                                     silu(v) = v / (1 + exp(-v))
/// Everything is float32. Requires a <= 0. C16 = padded_channels(C). Channel arrays that have a state axis are blocked:
/// element (c, n) lies at [c / 16][n][c % 16]. Padded lanes of x, z, dt_raw, dt_bias, a and d are zero; then those of
/// out and of the state stay zero.
struct SelectiveScanArgs final {
  int64_t channels = 0;      // C16, a multiple of 16
  int64_t state_size = 16;   // N, 1 to limits::kMaxStateSize
  const float* x = nullptr;  // [rows][x_stride]: the convolution's output
  int64_t x_stride = 0;      // floats, as all strides here
  const float* z = nullptr;  // [rows][z_stride]: the gate
  int64_t z_stride = 0;
  const float* dt_raw = nullptr;  // [rows][dt_stride]: dt_proj's output without its bias
  int64_t dt_stride = 0;
  const float* dt_bias = nullptr;  // [C16]
  const float* b = nullptr;        // [rows][b_stride], N used
  int64_t b_stride = 0;
  const float* c = nullptr;  // [rows][c_stride], N used
  int64_t c_stride = 0;
  const float* a = nullptr;          // [C16 / 16][N][16]: -exp(A_log) / ln 2
  const float* d = nullptr;          // [C16]
  const float* out_scale = nullptr;  // [C16]: a factor of each channel's gate; null: none
  float* state = nullptr;            // [slots][slot_stride]; each slot begins with [C16 / 16][N][16]
  int64_t slot_stride = 0;
  float* out = nullptr;  // [rows][out_stride]; may be x, z or dt_raw itself (with the same stride)
  int64_t out_stride = 0;
  std::span<const Run> runs;  // rows of different runs are disjoint
  std::span<const Tap> taps;  // sorted by row
};

/// Bits of a row and of a state depend only on the sequence before it: not on the cut into calls or runs, the other
/// rows, the threads or the instruction path.
void selective_scan(Stream& stream, const SelectiveScanArgs& args);

/// The same in plain float32 with the C library's functions, one element after another. For tests.
void selective_scan_reference(const SelectiveScanArgs& args);

/// Between plain [channels][N] and blocked [padded_channels(channels) / 16][N][16]; padded lanes become zero.
void to_blocked(const float* plain, int64_t channels, int64_t state_size, float* blocked);
void from_blocked(const float* blocked, int64_t channels, int64_t state_size, float* plain);

}  // namespace krait::kernels
