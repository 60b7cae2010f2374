// When to say what would otherwise be said over and over.
#pragma once

#include <cstdint>
#include <limits>

#include "common/base/limits.h"

namespace krait {

/// Of somebody who waits: not at once, because most waits are short, and then now and again.
class Reminder final {
 public:
  /// Call it often. True when it is time for a word: after limits::kFirstWaitWordNs of waiting without a break, and
  /// every limits::kNextWaitWordNs from then on.
  bool due(bool waiting, int64_t now_ns) {
    if (waiting && !waiting_) {
      since_ns_ = now_ns;
      next_ns_ = now_ns + limits::kFirstWaitWordNs;
    }
    waiting_ = waiting;
    if (!waiting || now_ns < next_ns_) return false;
    next_ns_ = now_ns + limits::kNextWaitWordNs;
    return true;
  }

  /// Seconds of waiting so far.
  int64_t seconds(int64_t now_ns) const { return waiting_ ? (now_ns - since_ns_) / kSecond : 0; }

 private:
  bool waiting_ = false;
  int64_t since_ns_ = 0;
  int64_t next_ns_ = 0;
};

/// Of something that happens again and again: at once, and then every limits::kNextWaitWordNs at most.
class Throttle final {
 public:
  /// Call it each time it happens. True when it is time for a word, which is about `times()` of it.
  bool due(int64_t now_ns) {
    if (spoke_) times_ = 0;
    ++times_;
    spoke_ = now_ns >= next_ns_;
    if (spoke_) next_ns_ = now_ns + limits::kNextWaitWordNs;
    return spoke_;
  }

  /// How often it has happened since the last word, this time included.
  int64_t times() const { return times_; }

 private:
  bool spoke_ = false;
  int64_t times_ = 0;
  int64_t next_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace krait
