#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "kernels/sampling/row_bodies.h"

#define KRAIT_SIMD_BODY "kernels/sampling/sampling.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {
namespace {

/// When nothing is above -inf: the first in the order of the values themselves.
Candidate first_of_nothing(const float* values, const int32_t* ids, int64_t n, int32_t id_offset) {
  Candidate best{values[0], ids != nullptr ? ids[0] : id_offset};
  for (int64_t i = 1; i < n; ++i) {
    const Candidate candidate{values[i], ids != nullptr ? ids[i] : static_cast<int32_t>(id_offset + i)};
    if (comes_before(candidate, best)) best = candidate;
  }
  return best;
}

/// log of a positive normal number from additions, multiplications and divisions alone, so that its bits do not depend
/// on the C library: 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172, as a series to s^21.
double log_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2)
    series = series * square + 1.0 / k;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2.0 * s * series;
}

}  // namespace

Candidate argmax_row(CpuPath path, const float* logits, int64_t n, int32_t id_offset) {
  CHECK_GE(n, 1);
  const Candidate best = KRAIT_SIMD_CALL(path, argmax_of_row, logits, n, id_offset);
  return best.id >= 0 ? best : first_of_nothing(logits, nullptr, n, id_offset);
}

float inverse_temperature(float temperature) {
  return 1.0f / temperature;
}

bool is_greedy(float temperature) {
  return !(temperature >= kLowestTemperature);
}

Candidate gumbel_argmax_row(CpuPath path, const float* logits, int64_t n, int32_t id_offset, float inv_temperature,
                            const NoiseKey& key) {
  CHECK_GE(n, 1);
  const Candidate best = KRAIT_SIMD_CALL(path, gumbel_argmax_of_row, logits, n, id_offset, inv_temperature, key);
  return best.id >= 0 ? best : first_of_nothing(logits, nullptr, n, id_offset);
}

Candidate gumbel_argmax_list(CpuPath path, const float* scaled, const int32_t* ids, int64_t n, const NoiseKey& key) {
  CHECK_GE(n, 1);
  const Candidate best = KRAIT_SIMD_CALL(path, gumbel_argmax_of_list, scaled, ids, n, key);
  return best.id >= 0 ? best : first_of_nothing(scaled, ids, n, 0);
}

double log_sum_exp(CpuPath path, const float* logits, int64_t n) {
  const float max = argmax_row(path, logits, n, 0).value;
  if (!std::isfinite(max)) return max > 0 ? HUGE_VAL : -HUGE_VAL;
  return static_cast<double>(max) + log_of(KRAIT_SIMD_CALL(path, sum_of_exp, logits, n, max));
}

int64_t top_n(const float* logits, int64_t n, std::span<Candidate> out) {
  const auto limit = std::min(static_cast<int64_t>(out.size()), n);
  int64_t count = 0;
  for (int64_t i = 0; i < n && limit > 0; ++i) {
    const Candidate candidate{logits[i], static_cast<int32_t>(i)};
    if (count == limit) {
      if (logits[i] <= out[static_cast<size_t>(count - 1)].value) continue;  // nearly all, without the full comparison
      if (!comes_before(candidate, out[static_cast<size_t>(count - 1)])) continue;
      --count;
    }
    int64_t at = count++;
    for (; at > 0 && comes_before(candidate, out[static_cast<size_t>(at - 1)]); --at) {
      out[static_cast<size_t>(at)] = out[static_cast<size_t>(at - 1)];
    }
    out[static_cast<size_t>(at)] = candidate;
  }
  return count;
}

void scale_logits(CpuPath path, float* logits, int64_t n, float factor) {
  KRAIT_SIMD_CALL(path, scale_logits, logits, n, factor);
}

void weigh(CpuPath path, float* scaled, int64_t n, float max, float min_p, float* weights) {
  KRAIT_SIMD_CALL(path, weigh, scaled, n, max, min_p, weights);
}

}  // namespace krait::kernels
