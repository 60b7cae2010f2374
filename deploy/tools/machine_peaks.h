// What this machine can do at best, measured: multiply-adds with all operands in registers, and reading from memory.
// Both change within minutes where a machine is shared, so they are measured beside what is compared with them.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/dtype.h"
#include "kernels/device/stream.h"

namespace krait::tools {

/// Operations (a multiply-add is two) a nanosecond of the stream's team by the fastest instruction that products with
/// weights of that type may use; 0 where nobody knows one here. Takes a tenth of a second or two.
double peak_gops(kernels::Stream& stream, DType dtype);

/// Bytes a nanosecond that the team reads from `data`, which is larger than the caches and has been written. Takes
/// `seconds`, or three passes.
double read_gbytes(kernels::Stream& stream, std::span<const std::byte> data, double seconds = 0.5);

double seconds_of(clockid_t clock);

/// Seconds that a tenth of many calls stay below: others share this machine, and the very fastest call may be an error
/// of its clock. A single thread is timed by what it ran, not by what it waited.
template <class Work>
double best_seconds(const kernels::Stream& stream, double budget_seconds, Work work) {
  const clockid_t clock = stream.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> calls;
  const double start = seconds_of(CLOCK_MONOTONIC);
  while (calls.size() < 3 || seconds_of(CLOCK_MONOTONIC) - start < budget_seconds) {
    const double begin = seconds_of(clock);
    work();
    calls.push_back(seconds_of(clock) - begin);
  }
  const auto tenth = calls.begin() + static_cast<std::ptrdiff_t>(calls.size() / 10);
  std::nth_element(calls.begin(), tenth, calls.end());
  return *tenth;
}

}  // namespace krait::tools
