#include <cmath>

#include "common/base/rng.h"
#include "kernels/sampling/sampling.h"

namespace krait::kernels {

float gumbel_noise_reference(int32_t id, const NoiseKey& key) {
  const uint32_t r = philox4x32({static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)},
                                {static_cast<uint32_t>(id), static_cast<uint32_t>(key.position),
                                 static_cast<uint32_t>(key.position >> 32), key.choice})[0];
  const double v = (static_cast<double>(r) + 0.5) * 0x1.0p-32;
  return static_cast<float>(-std::log(-std::log1p(-v)));
}

double log_sum_exp_reference(const float* logits, int64_t n) {
  double max = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i)
    max = logits[i] > max ? static_cast<double>(logits[i]) : max;
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(static_cast<double>(logits[i]) - max);
  return max + std::log(sum);
}

}  // namespace krait::kernels
