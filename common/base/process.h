// What a daemon needs from its process: orderly signals, a watch on its parent, the cores and memory it may use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace krait {

/// Turns SIGTERM, SIGINT and the death of the parent into calls. Make it before any other thread, in main().
class StopWatch final {
 public:
  /// `on_stop` is called on the watch's own thread, once for each signal; `parent_pid` > 0 adds a call when that
  /// process is no longer our parent. SIGPIPE is ignored from now on.
  StopWatch(int64_t parent_pid, std::function<void()> on_stop);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  void run(int64_t parent_pid);

  std::function<void()> on_stop_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

/// Cores that this process may use: the affinity mask, or less where a cgroup (version 2) sets a quota. At least 1.
int allowed_cores();

/// Bytes of memory that could be allocated now: MemAvailable, or what a cgroup (version 2) leaves, if that is less.
int64_t available_memory_bytes();

}  // namespace krait
