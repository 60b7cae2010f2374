// The gate of an MLP: GELU by its definition, not by its tanh approximation.
#pragma once

#include <cstdint>

#include "kernels/device/stream.h"

namespace krait::kernels {

/// gate[t][i] = gelu(gate[t][i]) * up[t][i],  gelu(v) = v * (1 + erf(v / sqrt(2))) / 2 (Hendrycks, Gimpel, 2016).
struct GeluGateArgs final {
  int64_t rows = 0;
  int64_t width = 0;
  float* gate = nullptr;  // [rows][stride]
  const float* up = nullptr;
  int64_t stride = 0;  // floats, of both
};

/// The same bits on every path.
void gelu_gate(Stream& stream, const GeluGateArgs& args);

/// With the C library's erf. For tests.
void gelu_gate_reference(const GeluGateArgs& args);

}  // namespace krait::kernels
