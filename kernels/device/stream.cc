#include "kernels/device/stream.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "kernels/device/futex.h"

namespace krait::kernels {
namespace {

/// False when the system refuses; the thread then stays where it is.
bool bind_to_core(pthread_t thread, int core) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(core, &mask);
  return pthread_setaffinity_np(thread, sizeof(mask), &mask) == 0;
}

}  // namespace

/// One round: the caller publishes the work and raises `round_`; each worker runs it and lowers `running_`.
class Stream::Team final {
 public:
  explicit Team(const StreamOptions& options) : path_(options.path), spin_ns_(options.may_spin ? kSpinNs : 0) {
    CHECK(options.threads >= 1 && options.threads <= limits::kMaxThreads);
    start_workers(options.threads - 1);
    if (!options.cpus.empty()) bind(options.cpus);
  }

  ~Team() {
    stop_ = true;  // published by the next line
    raise_round();
    for (std::thread& worker : workers_)
      worker.join();
    if (callers_mask_) pthread_setaffinity_np(caller_, sizeof(*callers_mask_), &*callers_mask_);
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  CpuPath path() const { return path_; }

  void run(FunctionRef<void(int)> work) {
    if (workers_.empty()) return work(0);
    CHECK(!busy_.exchange(true, std::memory_order_relaxed));
    if (const int left = sleepy_rounds_.load(std::memory_order_relaxed); left > 0)
      sleepy_rounds_.store(left - 1, std::memory_order_relaxed);
    work_ = &work;
    running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
    raise_round();
    work(0);
    wait_for_workers();
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kSpinNs = 50 * kUs;
  static constexpr int kSleepyRounds = 16;  // after a worker that was late: a twentieth of a step

  /// A worker that is late waits for a core, which spinning would keep from it.
  int64_t spin_ns() const { return sleepy_rounds_.load(std::memory_order_relaxed) > 0 ? 0 : spin_ns_; }

  void start_workers(int count) {
    workers_.reserve(static_cast<size_t>(count));
    for (int i = 1; i <= count; ++i) {
      try {
        workers_.emplace_back([this, i] { work_loop(i); });
      } catch (const std::system_error& error) {
        log_warning("started {} of {} kernel threads: {}", i, count + 1, error.what());
        return;
      }
      pthread_setname_np(workers_.back().native_handle(), "krait-kernel");
    }
  }

  void bind(const std::vector<int>& cpus) {
    cpu_set_t mask;
    caller_ = pthread_self();
    const bool known = pthread_getaffinity_np(caller_, sizeof(mask), &mask) == 0;
    bool bound = known && bind_to_core(caller_, cpus[0]);
    if (bound) callers_mask_ = mask;
    for (size_t i = 0; i < workers_.size(); ++i)
      bound = bind_to_core(workers_[i].native_handle(), cpus[(i + 1) % cpus.size()]) && bound;
    if (!bound) log_warning("could not bind every kernel thread to a core");
  }

  void raise_round() {
    // Sequentially consistent, like the sleepers' count: either the sleeper sees the new round, or we see the sleeper.
    round_.fetch_add(1);
    if (sleepers_.load() != 0) futex_wake_all(round_);
  }

  void work_loop(int worker) {
    for (uint32_t seen = 0;; ++seen) {
      if (!spin_until([&] { return round_.load(std::memory_order_acquire) != seen; }, spin_ns())) {
        sleepers_.fetch_add(1);
        while (round_.load() == seen)
          futex_wait(round_, seen);
        sleepers_.fetch_sub(1);
      }
      if (stop_) return;
      (*work_)(worker);
      if (running_.fetch_sub(1) == 1 && caller_sleeps_.load()) futex_wake_all(running_);
    }
  }

  void wait_for_workers() {
    const int64_t spin = spin_ns();
    if (spin_until([&] { return running_.load(std::memory_order_acquire) == 0; }, spin)) return;
    if (spin > 0) sleepy_rounds_.store(kSleepyRounds, std::memory_order_relaxed);
    caller_sleeps_.store(true);
    for (uint32_t left = running_.load(); left != 0; left = running_.load())
      futex_wait(running_, left);
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }

  const CpuPath path_;
  const int64_t spin_ns_;
  std::vector<std::thread> workers_;
  pthread_t caller_{};
  std::optional<cpu_set_t> callers_mask_;  // of the constructing thread, before it was bound
  std::atomic<bool> busy_ = false;         // a nested or second caller would wait for ever

  // Each line is written by one side at a time; apart, so that a poll does not slow the other side's work.
  alignas(64) std::atomic<uint32_t> round_ = 0;
  const FunctionRef<void(int)>* work_ = nullptr;
  bool stop_ = false;
  std::atomic<int> sleepy_rounds_ = 0;  // that nobody spins in, this one included
  alignas(64) std::atomic<uint32_t> sleepers_ = 0;
  alignas(64) std::atomic<uint32_t> running_ = 0;
  alignas(64) std::atomic<bool> caller_sleeps_ = false;
};

Stream::Stream(const StreamOptions& options) : team_(std::make_unique<Team>(options)) {}
Stream::~Stream() = default;
int Stream::threads() const {
  return team_->threads();
}
CpuPath Stream::path() const {
  return team_->path();
}
void Stream::run(FunctionRef<void(int)> work) {
  team_->run(work);
}

void Stream::parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t, int64_t)> work) {
  CHECK_GT(grain, 0);
  if (count <= 0) return;
  const int64_t grains = ceil_div(count, grain);
  const int64_t ranges = std::min<int64_t>(threads(), grains);
  if (ranges == 1) return work(0, count);
  team_->run([&](int worker) {
    if (worker >= ranges) return;
    const int64_t begin = grains * worker / ranges * grain;
    const int64_t end = std::min(count, grains * (worker + 1) / ranges * grain);
    if (begin < end) work(begin, end);
  });
}

int64_t KernelTimer::clock_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace krait::kernels
