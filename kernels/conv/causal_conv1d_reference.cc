#include <cmath>
#include <vector>

#include "kernels/conv/causal_conv1d.h"

namespace krait::kernels {
namespace {

float silu(float v) {
  return v / (1.0f + std::exp(-v));
}

/// One channel of one run. `inputs` is the input state followed by the rows.
void conv_channel(const CausalConv1dArgs& args, const Run& run, int64_t channel) {
  const int64_t past = args.kernel - 1;
  std::vector<float> inputs;
  for (int64_t j = 0; j < past; ++j) {
    const int64_t at = run.in_slot * args.slot_stride + j * args.channels + channel;
    inputs.push_back(run.in_slot < 0 ? 0.0f : args.state[at]);
  }
  const auto save = [&](int32_t slot, int64_t rows_done) {
    for (int64_t j = 0; j < past; ++j) {
      args.state[slot * args.slot_stride + j * args.channels + channel] = inputs[static_cast<size_t>(rows_done + j)];
    }
  };
  for (int64_t i = 0; i < run.rows; ++i) {
    const int64_t row = run.row_begin + i;
    inputs.push_back(args.x[row * args.x_stride + channel]);
    float sum = args.bias != nullptr ? args.bias[channel] : 0.0f;
    for (int64_t j = 0; j < args.kernel; ++j) {
      sum += args.weight[j * args.channels + channel] * inputs[static_cast<size_t>(i + j)];
    }
    args.out[row * args.out_stride + channel] = silu(sum);
    for (const Tap& tap : args.taps) {
      if (tap.row == row) save(tap.slot, i + 1);
    }
  }
  if (run.out_slot >= 0) save(run.out_slot, run.rows);
}

}  // namespace

void causal_conv1d_reference(const CausalConv1dArgs& args) {
  for (const Run& run : args.runs) {
    for (int64_t channel = 0; channel < args.channels; ++channel)
      conv_channel(args, run, channel);
  }
}

}  // namespace krait::kernels
