#include "common/base/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>

#include "common/base/units.h"

namespace krait {
namespace {

constexpr int64_t kParentPollNs = 200 * kMs;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// The first two words of a one-line file; "max" and what is missing read as -1.
std::pair<int64_t, int64_t> two_numbers(const char* path) {
  std::ifstream file(path);
  std::string first, second;
  file >> first >> second;
  const auto number = [](const std::string& text) -> int64_t {
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
    return std::stoll(text);
  };
  return {number(first), number(second)};
}

}  // namespace

StopWatch::StopWatch(int64_t parent_pid, std::function<void()> on_stop) : on_stop_(std::move(on_stop)) {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  if (parent_pid > 0) prctl(PR_SET_PDEATHSIG, SIGTERM);
  thread_ = std::thread([this, parent_pid] { run(parent_pid); });
}

StopWatch::~StopWatch() {
  done_ = true;
  thread_.join();
}

void StopWatch::run(int64_t parent_pid) {
  const sigset_t set = stop_signals();
  bool orphan = false;
  while (!done_) {
    const timespec timeout{0, kParentPollNs};
    if (sigtimedwait(&set, nullptr, &timeout) > 0) on_stop_();
    if (parent_pid > 0 && !orphan && getppid() != parent_pid) {
      orphan = true;
      on_stop_();
    }
  }
}

int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  const auto [quota, period] = two_numbers("/sys/fs/cgroup/cpu.max");
  if (quota > 0 && period > 0) cores = std::min<int>(cores, static_cast<int>(std::max<int64_t>(1, quota / period)));
  return cores;
}

int64_t available_memory_bytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key, rest; meminfo >> key && std::getline(meminfo, rest);) {
    if (key == "MemAvailable:") available = std::stoll(rest) * kKiB;
  }
  const int64_t most = two_numbers("/sys/fs/cgroup/memory.max").first;
  const int64_t used = two_numbers("/sys/fs/cgroup/memory.current").first;
  if (most >= 0 && used >= 0) available = std::min(available, std::max<int64_t>(0, most - used));
  return available;
}

}  // namespace krait
