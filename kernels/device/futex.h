// Waiting for another thread of this process: a bounded spin, then sleep in the kernel.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace krait::kernels {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is 32 bits");

/// Sleeps while `word` holds `value`; may also return without cause, so that the caller looks again.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Polls `done` for at most `limit_ns`; whether it came true.
template <class Done>
bool spin_until(Done done, int64_t limit_ns) {
  if (done()) return true;
  if (limit_ns <= 0) return false;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns);
  do {
    // The clock costs as much as a few polls: look at it seldom, so that an end is seen at once.
    for (int poll = 0; poll < 16; ++poll) {
      if (done()) return true;
      cpu_pause();
    }
  } while (std::chrono::steady_clock::now() < limit);
  return false;
}

}  // namespace krait::kernels
