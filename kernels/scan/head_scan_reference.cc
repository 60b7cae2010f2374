#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/scan/head_scan.h"

namespace krait::kernels {

void head_steps_reference(const HeadStepsArgs& args) {
  for (int64_t t = 0; t < args.rows; ++t) {
    for (int64_t j = 0; j < args.heads; ++j) {
      float& dt = args.dt[t * args.dt_stride + j];
      const float raw = dt + args.dt_bias[j];
      dt = std::min(std::max(raw > 20.0f ? raw : std::log1p(std::exp(raw)), args.dt_min), args.dt_max);
      args.decay[t * args.decay_stride + j] = std::exp(dt * args.a[j]);
    }
  }
}

namespace {

/// One channel of one run.
void scan_channel(const HeadScanArgs& args, const Run& run, int64_t channel) {
  const auto at = [&](int64_t n) {
    return (channel / kChannelBlock * args.state_size + n) * kChannelBlock + channel % kChannelBlock;
  };
  std::vector<float> h(static_cast<size_t>(args.state_size), 0.0f);
  const auto save = [&](int32_t slot) {
    for (int64_t n = 0; n < args.state_size; ++n)
      args.state[slot * args.slot_stride + at(n)] = h[static_cast<size_t>(n)];
  };
  for (int64_t n = 0; n < args.state_size && run.in_slot >= 0; ++n)
    h[static_cast<size_t>(n)] = args.state[run.in_slot * args.slot_stride + at(n)];
  for (int64_t t = run.row_begin; t < run.row_begin + run.rows; ++t) {
    const int64_t head = t * args.step_stride + args.head_of[channel];
    const float x = args.x[t * args.x_stride + channel];
    float sum[4] = {};
    for (int64_t n = 0; n < args.state_size; ++n) {
      float& state = h[static_cast<size_t>(n)];
      state = args.decay[head] * state + (args.dt[head] * x) * args.b[t * args.b_stride + n];
      sum[n % 4] += args.c[t * args.c_stride + n] * state;
    }
    const float y = (sum[0] + sum[2]) + (sum[1] + sum[3]) + args.d[channel] * x;
    const float z = args.z[t * args.z_stride + channel];
    args.out[t * args.out_stride + channel] = y * (z / (1.0f + std::exp(-z)));
    for (const Tap& tap : args.taps) {
      if (tap.row == t) save(tap.slot);
    }
  }
  if (run.out_slot >= 0) save(run.out_slot);
}

}  // namespace

void head_scan_reference(const HeadScanArgs& args) {
  for (const Run& run : args.runs) {
    for (int64_t channel = 0; channel < args.channels; ++channel)
      scan_channel(args, run, channel);
  }
}

}  // namespace krait::kernels
