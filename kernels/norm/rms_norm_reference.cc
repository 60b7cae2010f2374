#include <cmath>

#include "kernels/norm/rms_norm.h"

namespace krait::kernels {

void rms_norm_reference(const RmsNormArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* out = args.out + row * args.out_stride;
    float sum = 0.0f;
    for (int64_t i = 0; i < args.width; ++i)
      sum += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(args.width) + args.eps);
    for (int64_t i = 0; i < args.width; ++i)
      out[i] = (args.weight != nullptr ? args.weight[i] : 1.0f) * (x[i] * scale);
  }
}

}  // namespace krait::kernels
