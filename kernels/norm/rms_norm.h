// Root-mean-square normalisation, alone and with the residual addition before it.
#pragma once

#include <cstdint>

#include "kernels/device/stream.h"

namespace krait::kernels {

/// out[t][i] = weight[i] * (x[t][i] * (1 / sqrt(mean over i of x[t][i]^2 + eps))), i in [0, width), as Hugging Face's
/// MambaRMSNorm in float32. The sum of squares has one fixed order that depends on the width alone.
struct RmsNormArgs final {
  int64_t rows = 0;
  int64_t width = 0;              // H, any positive number
  const float* x = nullptr;       // [rows][x_stride]
  int64_t x_stride = 0;           // floats
  const float* weight = nullptr;  // [width], or null for ones (Falcon-Mamba's norms of dt, B and C)
  float eps = 1e-5f;
  float* out = nullptr;    // [rows][out_stride]; may be x itself
  int64_t out_stride = 0;  // floats
};

/// Bits of a row depend on that row and the weight alone.
void rms_norm(Stream& stream, const RmsNormArgs& args);

/// First h[t][i] += delta[t][i], then the norm of h: the bits of the two done one after the other.
struct AddRmsNormArgs final {
  int64_t rows = 0;
  int64_t width = 0;
  float* h = nullptr;  // [rows][h_stride]: the residual stream, updated
  int64_t h_stride = 0;
  const float* delta = nullptr;  // [rows][delta_stride]
  int64_t delta_stride = 0;
  const float* weight = nullptr;  // [width], or null for ones
  float eps = 1e-5f;
  float* out = nullptr;  // [rows][out_stride]; may be delta, not h
  int64_t out_stride = 0;
};

void add_rms_norm(Stream& stream, const AddRmsNormArgs& args);

/// Plain float32, sums in the order of i. For tests.
void rms_norm_reference(const RmsNormArgs& args);

}  // namespace krait::kernels
