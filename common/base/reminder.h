// When somebody who waits should say so: not at once, because most waits are short, and then now and again.
#pragma once

#include <cstdint>

#include "common/base/limits.h"

namespace krait {

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

}  // namespace krait
