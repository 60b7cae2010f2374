#include <cmath>
#include <numbers>

#include "kernels/attention/paged_attention.h"

namespace krait::kernels {
namespace {

struct Turn final {
  float cosine, sine;
};

/// Both by series in double after a reduction to [-pi / 4, pi / 4], within 1e-12 for angles up to 2^24: the same bits
/// with every C library.
Turn turn_of(float angle) {
  // pi / 2 in two parts, the first with room for a 24-bit multiple.
  constexpr double kHigh = 0x1.921fb54p+0;
  constexpr double kLow = std::numbers::pi / 2 - kHigh;
  const double quarter = std::nearbyint(static_cast<double>(angle) * (2 / std::numbers::pi));
  const double r = (static_cast<double>(angle) - quarter * kHigh) - quarter * kLow;
  const double square = r * r;
  double sine = 0;
  double cosine = 0;
  for (int k = 8; k >= 1; --k) {
    sine = (1 + sine) * (-square / ((2 * k) * (2 * k + 1)));
    cosine = (1 + cosine) * (-square / ((2 * k) * (2 * k - 1)));
  }
  sine = r * (1 + sine);
  cosine = 1 + cosine;
  switch (static_cast<int64_t>(quarter) & 3) {
    case 0:
      return {static_cast<float>(cosine), static_cast<float>(sine)};
    case 1:
      return {static_cast<float>(-sine), static_cast<float>(cosine)};
    case 2:
      return {static_cast<float>(-cosine), static_cast<float>(-sine)};
    default:
      return {static_cast<float>(sine), static_cast<float>(-cosine)};
  }
}

}  // namespace

void rotary(Stream& stream, const RotaryArgs& args) {
  const KernelTimer timer(stream, KernelKind::kAttention);
  const int64_t half = args.head_dim / 2;
  stream.parallel_for(half, 1, [&](int64_t begin, int64_t end) {
    for (const AttentionRun& run : args.runs) {
      for (int64_t row = 0; row < run.rows; ++row) {
        float* x = args.x + (run.row_begin + row) * args.stride;
        for (int64_t i = begin; i < end; ++i) {
          const Turn turn = turn_of(static_cast<float>(run.position + row) * args.inverse_frequency[i]);
          for (int64_t head = 0; head < args.heads; ++head) {
            float& low = x[head * args.head_dim + i];
            float& high = x[head * args.head_dim + half + i];
            const float before = low;
            low = before * turn.cosine - high * turn.sine;
            high = high * turn.cosine + before * turn.sine;
          }
        }
      }
    }
  });
}

}  // namespace krait::kernels
