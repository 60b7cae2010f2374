// Bounded stores that many clients share: who may still add when one is nearly full.
#pragma once

#include <algorithm>
#include <cstdint>

namespace krait {

/// What a store holds beyond its limit, for clients that hold little of it.
constexpr int64_t fair_reserve(int64_t limit) {
  return std::max<int64_t>(1, limit / 8);
}

/// Whether a client that holds `own` of the `total` in a store may add `amount`. Up to `limit` anyone may. In the
/// reserve beyond it, a client may while it holds no more than what is left: whoever floods the store is refused there,
/// and whoever holds nothing finds a place. What was taken is never put out again, so nothing accepted is lost.
constexpr bool has_fair_room(int64_t total, int64_t own, int64_t amount, int64_t limit) {
  if (total + amount <= limit) return true;
  const int64_t left = limit + fair_reserve(limit) - total - amount;
  return left >= 0 && own <= left;
}

}  // namespace krait
