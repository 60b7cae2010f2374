// Time as an argument: real in the daemons, set by hand in tests.
#pragma once

#include <atomic>
#include <cstdint>

namespace krait {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic nanoseconds.
  virtual int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override;
};

/// A clock that only moves when told; may be read from any thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_ns = 0) : now_ns_(start_ns) {}
  int64_t now_ns() const override { return now_ns_.load(std::memory_order_relaxed); }
  void advance(int64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ns_;
};

/// Seconds since 1970, for "created" fields and logs only; never for deadlines.
int64_t unix_seconds();

}  // namespace krait
