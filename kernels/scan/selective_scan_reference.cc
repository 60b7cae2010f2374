#include <cmath>
#include <vector>

#include "kernels/scan/selective_scan.h"

namespace krait::kernels {
namespace {

float softplus(float v) {
  return v > 20.0f ? v : std::log1p(std::exp(v));
}
float silu(float v) {
  return v / (1.0f + std::exp(-v));
}

/// One channel of one run.
void scan_channel(const SelectiveScanArgs& args, const Run& run, int64_t channel) {
  const int64_t state_size = args.state_size;
  const auto at = [&](int64_t n) {
    return (channel / kChannelBlock * state_size + n) * kChannelBlock + channel % kChannelBlock;
  };
  std::vector<float> h(static_cast<size_t>(state_size), 0.0f);
  const auto save = [&](int32_t slot) {
    for (int64_t n = 0; n < state_size; ++n)
      args.state[slot * args.slot_stride + at(n)] = h[static_cast<size_t>(n)];
  };
  if (run.in_slot >= 0) {
    for (int64_t n = 0; n < state_size; ++n) {
      h[static_cast<size_t>(n)] = args.state[run.in_slot * args.slot_stride + at(n)];
    }
  }
  for (int64_t t = run.row_begin; t < run.row_begin + run.rows; ++t) {
    const float x = args.x[t * args.x_stride + channel];
    const float dt = softplus(args.dt_raw[t * args.dt_stride + channel] + args.dt_bias[channel]);
    float sum[2] = {};
    for (int64_t n = 0; n < state_size; ++n) {
      float& state = h[static_cast<size_t>(n)];
      state = std::exp2(dt * args.a[at(n)]) * state + (dt * x) * args.b[t * args.b_stride + n];
      sum[n % 2] += args.c[t * args.c_stride + n] * state;
    }
    const float y = (sum[0] + sum[1]) + args.d[channel] * x;
    const float scale = args.out_scale == nullptr ? 1 : args.out_scale[channel];
    args.out[t * args.out_stride + channel] = y * (silu(args.z[t * args.z_stride + channel]) * scale);
    for (const Tap& tap : args.taps) {
      if (tap.row == t) save(tap.slot);
    }
  }
  if (run.out_slot >= 0) save(run.out_slot);
}

}  // namespace

void selective_scan_reference(const SelectiveScanArgs& args) {
  for (const Run& run : args.runs) {
    for (int64_t channel = 0; channel < args.channels; ++channel)
      scan_channel(args, run, channel);
  }
}

}  // namespace krait::kernels
