// The state of one sequence as the model defines it, whatever ranks hold it: every rank fills in its part.
#pragma once

#include <cstddef>
#include <vector>

namespace krait::shard {

/// Channels in the checkpoint's order.
struct WholeLayerState final {
  std::vector<float> conv;  // [channels of the convolution][K - 1], oldest first
  std::vector<float> ssm;   // [I][N]
  // Of hybrids' layers with attention: [heads of keys and values][tokens][D].
  std::vector<float> keys;  // after the rotary turn
  std::vector<float> values;

  friend bool operator==(const WholeLayerState&, const WholeLayerState&) = default;
};

struct WholeState final {
  std::vector<WholeLayerState> layers;

  WholeLayerState& layer(int index) {
    const auto at = static_cast<size_t>(index);
    if (layers.size() <= at) layers.resize(at + 1);
    return layers[at];
  }
  friend bool operator==(const WholeState&, const WholeState&) = default;
};

}  // namespace krait::shard
