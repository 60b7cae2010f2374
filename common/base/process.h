// What a daemon needs from its process: orderly signals, a watch on its parent, the cores and memory it may use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "common/base/result.h"

namespace krait {

/// Turns SIGTERM, SIGINT and the death of the parent into calls. Make it before any other thread, in main(). A process
/// that is still there limits::kHardStopNs after the second one ends with code 1, whatever it is doing.
class StopWatch final {
 public:
  /// `on_stop` is called on the watch's own thread, once for each signal; `parent_pid` > 0 adds a call when that
  /// process is no longer our parent. From now on a broken pipe (SIGPIPE) and a file over its limit (SIGXFSZ) are
  /// errors of the write and end nothing.
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

/// From now on an exception that nothing catches, as a rule for want of memory, leaves its words on standard error
/// before the process aborts.
void install_last_words();

/// Cores that this process may use: the affinity mask, or less where a cgroup (version 2) sets a quota. At least 1.
int allowed_cores();

/// Where the kernel tells of memory. For tests: other places.
struct MemoryFiles final {
  std::string meminfo = "/proc/meminfo";
  std::string own_cgroup = "/proc/self/cgroup";
  std::string cgroups = "/sys/fs/cgroup";
};

/// Bytes of memory that could be allocated now: MemAvailable, or what this process's cgroup (version 2) or one above it
/// leaves, if that is less. File pages that the kernel may drop count as free.
int64_t available_memory_bytes(const MemoryFiles& files = {});

/// From now on a large buffer's memory (1 MiB and more) is the system's again as soon as it is freed. By default the
/// allocator keeps it for the next one: a prompt of a million tokens would hold the place of the message it came in.
void give_large_buffers_back();

/// Bytes of addresses that this process may still map (ulimit -v); the most there can be where nothing limits them.
int64_t address_space_left_bytes();

/// Tells whoever started this process that it serves: a line "READY " and `json` on standard output. kIo where that
/// cannot be written, since then nobody would know.
Status say_ready(const std::string& json);

/// Descriptors that this process may have open; the soft limit has been raised to the hard one.
int64_t raise_descriptor_limit();

/// Of `most` connections, how many `descriptors` allow: fewer with a warning. kResourceExhausted: too few to serve.
Result<int> connections_within(int64_t descriptors, int most);

}  // namespace krait
