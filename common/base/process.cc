#include "common/base/process.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/base/units.h"

namespace krait {
namespace {

constexpr int64_t kParentPollNs = 200 * kMs;
constexpr int kLargeBufferBytes = 1 * kMiB;

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// The first two words of a one-line file; "max" and what is missing read as -1.
std::pair<int64_t, int64_t> two_numbers(const std::string& path) {
  std::ifstream file(path);
  std::string first, second;
  file >> first >> second;
  const auto number = [](const std::string& text) -> int64_t {
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
    return std::stoll(text);
  };
  return {number(first), number(second)};
}

/// The number after `key` in a file of "key number" lines; -1 if there is none.
int64_t number_after(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string key, value, rest;
  while (file >> key >> value && std::getline(file, rest)) {
    if (key == wanted && !value.empty() && value.size() <= 18 &&
        value.find_first_not_of("0123456789") == std::string::npos)
      return std::stoll(value);
  }
  return -1;
}

/// What one cgroup leaves; "no limit" is the most there can be.
int64_t left_in_cgroup(const std::string& folder) {
  const int64_t most = two_numbers(folder + "/memory.max").first;
  const int64_t used = two_numbers(folder + "/memory.current").first;
  if (most < 0 || used < 0) return std::numeric_limits<int64_t>::max();
  const int64_t droppable = std::max<int64_t>(0, number_after(folder + "/memory.stat", "inactive_file"));
  return std::max<int64_t>(0, most - std::max<int64_t>(0, used - droppable));
}

/// This process's folder under the root of cgroups (version 2): "0::/a/b" is "/a/b"; empty where it is the root.
std::string own_cgroup(const std::string& path) {
  std::ifstream file(path);
  constexpr std::string_view kVersion2 = "0::";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kVersion2)) return line == "0::/" ? "" : line.substr(kVersion2.size());
  }
  return "";
}

/// The words go out with what is at hand: there may be no memory to make a log line of.
void say_last_words(const char* what) {
  std::array<char, 512> line;
  const auto end =
      fmt::format_to_n(line.data(), line.size() - 1, "aborted: an error that nothing caught: {}", what).out;
  *end = '\n';
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), static_cast<size_t>(end - line.data()) + 1);
}

}  // namespace

void install_last_words() {
  std::set_terminate([] {
    try {
      if (const auto uncaught = std::current_exception(); uncaught != nullptr) std::rethrow_exception(uncaught);
      say_last_words("none is known");
    } catch (const std::bad_alloc&) {
      say_last_words("out of memory");
    } catch (const std::exception& error) {
      say_last_words(error.what());
    } catch (...) {
      say_last_words("of an unknown kind");
    }
    std::abort();
  });
}

StopWatch::StopWatch(int64_t parent_pid, std::function<void()> on_stop) : on_stop_(std::move(on_stop)) {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  if (parent_pid > 0) prctl(PR_SET_PDEATHSIG, SIGTERM);
  thread_ = start_thread("signals", [this, parent_pid] { run(parent_pid); });
}

StopWatch::~StopWatch() {
  done_ = true;
  thread_.join();
}

void StopWatch::run(int64_t parent_pid) {
  const sigset_t set = stop_signals();
  const SteadyClock clock;
  bool orphan = false;
  int requests = 0;
  int64_t hard_stop_ns = std::numeric_limits<int64_t>::max();
  const auto stop = [&] {
    if (++requests == 2) hard_stop_ns = clock.now_ns() + limits::kHardStopNs;
    on_stop_();
  };
  while (!done_) {
    const timespec timeout{0, kParentPollNs};
    if (sigtimedwait(&set, nullptr, &timeout) > 0) stop();
    if (parent_pid > 0 && !orphan && getppid() != parent_pid) {
      orphan = true;
      log_warning("stops: its parent is process {}, and not {} as --watch-parent-pid says", getppid(), parent_pid);
      stop();
    }
    if (clock.now_ns() < hard_stop_ns) continue;
    log_error("stopped: still busy {} s after the second request to stop", limits::kHardStopNs / kSecond);
    _exit(1);
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

int64_t available_memory_bytes(const MemoryFiles& files) {
  const int64_t machine = number_after(files.meminfo, "MemAvailable:");
  int64_t available = machine >= 0 ? machine * kKiB : std::numeric_limits<int64_t>::max();
  // The limit of every cgroup from our own up to the root holds for us. In a container the root is our own.
  std::string folder = own_cgroup(files.own_cgroup);
  while (true) {
    available = std::min(available, left_in_cgroup(files.cgroups + folder));
    if (folder.empty()) return available;
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
  }
}

void give_large_buffers_back() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, kLargeBufferBytes);
#endif
}

int64_t address_space_left_bytes() {
  rlimit limit{};
  const int64_t pages = two_numbers("/proc/self/statm").first;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || pages < 0) {
    return std::numeric_limits<int64_t>::max();
  }
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
  return std::max<int64_t>(0, most - pages * sysconf(_SC_PAGESIZE));
}

Status say_ready(const std::string& json) {
  errno = 0;
  std::printf("READY %s\n", json.c_str());
  // What an earlier flush could not write counts too.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return Error{Errc::kIo, fmt::format("the READY line cannot be written to standard output: {}", std::strerror(errno)),
               ""};
}

int64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::kDescriptorsBeside;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int32_t>::max()));
}

Result<int> connections_within(int64_t descriptors, int most) {
  const int64_t wanted = int64_t{most} + limits::kDescriptorsBeside;
  if (descriptors >= wanted) return most;
  const int64_t left = descriptors - limits::kDescriptorsBeside;
  if (left < limits::kLeastConnections) {
    return Error{Errc::kResourceExhausted,
                 fmt::format("{} open files are too few: at least {} are needed (ulimit -Hn, LimitNOFILE=)",
                             descriptors, limits::kLeastConnections + limits::kDescriptorsBeside),
                 ""};
  }
  log_warning(
      "{} open files allow {} connections at once and not {}: {} are needed for those (ulimit -Hn, LimitNOFILE=)",
      descriptors, left, most, wanted);
  return static_cast<int>(left);
}

}  // namespace krait
