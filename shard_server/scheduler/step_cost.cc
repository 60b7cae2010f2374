#include "shard_server/scheduler/step_cost.h"

#include <algorithm>

#include "common/base/limits.h"

namespace krait::scheduler {
namespace {

constexpr double kSmoothing = 0.2;  // weight of the newest step
constexpr int64_t kFewRows = 4;     // steps up to here tell the base
constexpr int64_t kManyRows = 16;   // steps from here tell the cost of a row
constexpr double kLeastRowMs = 1e-4;
constexpr double kShorterStepFactor =
    1.15;  // of a row's cost: in a short step against a lone one (measured: 1.03-1.15)

}  // namespace

void StepCost::observe(int64_t rows, double step_ms, bool lone) {
  if (rows <= 0 || step_ms <= 0) return;
  if (rows <= kFewRows) {
    base_ms_ = has_base_ ? base_ms_ + kSmoothing * (step_ms - base_ms_) : step_ms;
    has_base_ = true;
  } else if (rows >= kManyRows) {
    // What lone prefill tells must not make the next steps with decode rows too long.
    const double factor = lone ? kShorterStepFactor : 1;
    const double row_ms = std::max(kLeastRowMs, factor * (step_ms - base_ms_) / static_cast<double>(rows));
    // A step that was slower than thought counts at once: the time between tokens is a promise, throughput is not.
    row_ms_ = row_ms > row_ms_ ? row_ms : row_ms_ + kSmoothing * (row_ms - row_ms_);
    knows_rows_ = true;
  }
}

int64_t StepCost::prefill_budget(int64_t decode_rows, double max_step_ms, int64_t max_rows) const {
  const double left_ms = max_step_ms - base_ms_ - static_cast<double>(decode_rows) * row_ms_;
  const auto rows = static_cast<int64_t>(std::clamp(left_ms / row_ms_, 0.0, static_cast<double>(max_rows)));
  return std::min(std::max(rows, kMinPrefillRows), max_rows);
}

int64_t StepCost::lone_prefill_budget(double max_step_ms, int64_t max_rows) const {
  const int64_t promised = prefill_budget(0, max_step_ms, max_rows);
  const int64_t longer = prefill_budget(0, limits::kLonePrefillFactor * max_step_ms, max_rows);
  return std::max(promised, std::min(longer, limits::kLonePrefillRows));
}

}  // namespace krait::scheduler
