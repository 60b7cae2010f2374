// The depthwise causal convolution of a Mamba mixer, with the state that carries it from call to call.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/stream.h"
#include "kernels/scan/runs.h"

namespace krait::kernels {

/// For row t of a run and channel c, with s(i) = x[i][c] for rows of the run and the input state before it:
///   out[t][c] = silu(bias[c] + sum over j in [0, K) of weight[j][c] * s(t - K + 1 + j)),   silu(v) = v / (1 + exp(-v))
/// summed from the bias on in the order of j. A state is the last K - 1 inputs, oldest first; the zero state is zeros.
/// C16 = padded_channels(C). Padded lanes of weight and bias are zero, so those of out are zero for any finite x.
struct CausalConv1dArgs final {
  int64_t channels = 0;           // C16, a multiple of 16
  int64_t kernel = 4;             // K, 2 to limits::kMaxConvKernel
  const float* x = nullptr;       // [rows][x_stride], C16 used
  int64_t x_stride = 0;           // floats
  const float* weight = nullptr;  // [K][C16]
  const float* bias = nullptr;    // [C16], or null for none
  float* state = nullptr;         // [slots][slot_stride]; each slot begins with [K - 1][C16]
  int64_t slot_stride = 0;        // floats between slots
  float* out = nullptr;           // [rows][out_stride], C16 used; may be x itself (with the same stride)
  int64_t out_stride = 0;         // floats
  std::span<const Run> runs;      // rows of different runs are disjoint
  std::span<const Tap> taps;      // sorted by row
};

/// Bits of a row depend only on its window: not on the cut into calls or runs, the threads or the instruction path.
void causal_conv1d(Stream& stream, const CausalConv1dArgs& args);

/// The same in plain float32 with the C library's exp, one element after another. For tests. Not in place.
void causal_conv1d_reference(const CausalConv1dArgs& args);

}  // namespace krait::kernels
