#include <cmath>
#include <numbers>

#include "kernels/pointwise/gelu_gate.h"

namespace krait::kernels {

void gelu_gate_reference(const GeluGateArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int64_t i = 0; i < args.width; ++i) {
      float& gate = args.gate[row * args.stride + i];
      const float half = 0.5f * std::erfc(-gate / std::numbers::sqrt2_v<float>);
      gate = gate * half * args.up[row * args.stride + i];
    }
  }
}

}  // namespace krait::kernels
