// Byte and time units, so that numbers in code read as what they are.
#pragma once

#include <cstdint>

namespace krait {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;

inline constexpr int64_t kUs = 1000;  // in nanoseconds
inline constexpr int64_t kMs = 1000 * kUs;
inline constexpr int64_t kSecond = 1000 * kMs;

/// The least multiple of `unit` that is not below `value`; both not negative.
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr int64_t ceil_div(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

}  // namespace krait
