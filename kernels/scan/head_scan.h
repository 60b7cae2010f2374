// The scan of Mamba-2 with its gate: one decay a head, and the state that carries it from call to call.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/stream.h"
#include "kernels/scan/runs.h"

namespace krait::kernels {

/// What a row gives each head (Dao, Gu: "Transformers are SSMs", 2024, section 6):
///   dt[t][j]    = min(max(softplus(dt_raw[t][j] + dt_bias[j]), dt_min), dt_max)
///   decay[t][j] = exp(dt[t][j] * a[j])
/// float32, heads side by side. Requires a <= 0 and dt_min >= 0.
struct HeadStepsArgs final {
  int64_t rows = 0;
  int64_t heads = 0;
  float* dt = nullptr;     // [rows][dt_stride]: dt_raw, in place
  int64_t dt_stride = 0;   // floats, as all strides here
  float* decay = nullptr;  // [rows][decay_stride]
  int64_t decay_stride = 0;
  const float* dt_bias = nullptr;  // [heads]
  const float* a = nullptr;        // [heads]: -exp(A_log)
  float dt_min = 0;
  float dt_max = 0;  // may be infinite
};

void head_steps(Stream& stream, const HeadStepsArgs& args);

/// For each row of a run in order and each channel c, whose head is j = head_of[c]:
///   h[n]      = decay[t][j] * h[n] + (dt[t][j] * x[t][c]) * b[t][n]            n in [0, N)
///   y         = sum over n of c[t][n] * h[n], in four sums of every fourth n: (s0 + s2) + (s1 + s3)
///   out[t][c] = (y + d[c] * x[t][c]) * silu(z[t][c])
/// Channels of one call share b and c (one group). Blocked states and padded lanes as in selective_scan.h.
struct HeadScanArgs final {
  int64_t channels = 0;      // C16, a multiple of 16
  int64_t state_size = 128;  // N, 1 to limits::kMaxStateSize
  const float* x = nullptr;  // [rows][x_stride]: the convolution's output
  int64_t x_stride = 0;
  const float* z = nullptr;  // [rows][z_stride]: the gate
  int64_t z_stride = 0;
  const float* dt = nullptr;     // [rows][step_stride], from head_steps, as decay
  const float* decay = nullptr;  // [rows][step_stride]
  int64_t step_stride = 0;
  const int32_t* head_of = nullptr;  // [C16]; of padded lanes any head
  const float* b = nullptr;          // [rows][b_stride], N used
  int64_t b_stride = 0;
  const float* c = nullptr;  // [rows][c_stride], N used
  int64_t c_stride = 0;
  const float* d = nullptr;  // [C16]
  float* state = nullptr;    // [slots][slot_stride]; each slot begins with [C16 / 16][N][16]
  int64_t slot_stride = 0;
  float* out = nullptr;  // [rows][out_stride]; may be x or z itself (with the same stride)
  int64_t out_stride = 0;
  std::span<const Run> runs;  // rows of different runs are disjoint
  std::span<const Tap> taps;  // sorted by row
};

/// Bits of a row and of a state depend only on the sequence before it, as those of selective_scan.
void head_scan(Stream& stream, const HeadScanArgs& args);

/// The same in plain float32 with the C library's functions, one element after another. For tests.
void head_steps_reference(const HeadStepsArgs& args);
void head_scan_reference(const HeadScanArgs& args);

}  // namespace krait::kernels
