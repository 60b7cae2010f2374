// What a step costs, learned from the steps that ran: it turns --max-step-ms into a number of prefill rows.
#pragma once

#include <cstdint>

namespace krait::scheduler {

/// A step of n rows takes about base + n x row milliseconds. Both are smoothed; neither affects any result, only how
/// prompts are cut, and results do not depend on that.
class StepCost final {
 public:
  /// A step of `rows` rows took `step_ms`; `lone`: it was planned with lone_prefill_budget, beyond `prefill_budget`.
  void observe(int64_t rows, double step_ms, bool lone = false);

  /// Prefill rows that fit beside `decode_rows` within `max_step_ms`; at least kMinPrefillRows, so that a prompt always
  /// moves on, and at most `max_rows`.
  int64_t prefill_budget(int64_t decode_rows, double max_step_ms, int64_t max_rows) const;

  /// Prefill rows of a step in which nobody waits for his next token: within limits::kLonePrefillFactor times
  /// `max_step_ms`, but beyond prefill_budget(0, ...) only up to limits::kLonePrefillRows.
  int64_t lone_prefill_budget(double max_step_ms, int64_t max_rows) const;

  /// What a step of that many rows should take.
  double expected_ms(int64_t rows) const { return base_ms_ + static_cast<double>(rows) * row_ms_; }

  /// Whether a row's cost was observed; before that it is a guess.
  bool knows_rows() const { return knows_rows_; }

  double base_ms() const { return base_ms_; }
  double row_ms() const { return row_ms_; }

  static constexpr int64_t kMinPrefillRows = 16;

 private:
  // Before the first observation a row is taken to cost this much: a first chunk that is small on any model.
  double base_ms_ = 0;
  double row_ms_ = 0.5;
  bool has_base_ = false;
  bool knows_rows_ = false;
};

}  // namespace krait::scheduler
