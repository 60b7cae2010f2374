// Where kernels run. On the host a stream is a team of threads; a kernel returns when its work is done.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device/cpu_path.h"
#include "kernels/device/function_ref.h"
#include "kernels/device/kernel_times.h"

namespace krait::kernels {

struct StreamOptions final {
  int threads = 1;  // the calling thread is one of them; at most limits::kMaxThreads
  CpuPath path = CpuPath::kPortable;
  bool may_spin = true;   // false when the machine has fewer cores than threads of its teams
  std::vector<int> cpus;  // worker i is bound to the i-th, round and round; the constructing thread is worker 0
};

/// A team of threads that splits the work of one kernel after another. Used by one thread at a time.
class Stream final {
 public:
  /// Starts the team. A thread that the system refuses is done without and logged: the number of threads changes no
  /// result.
  explicit Stream(const StreamOptions& options);
  /// Ends the team; gives the constructing thread the affinity back that it had before it was bound.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int threads() const;
  CpuPath path() const;

  /// Calls work(worker) once for each worker in [0, threads()), at the same time, and returns when all are done.
  /// Allocates nothing. The work must not throw, nor use this stream.
  void run(FunctionRef<void(int worker)> work);

  /// Splits [0, count) into at most threads() contiguous ranges whose bounds are multiples of `grain` (but for the
  /// end) and calls work(begin, end) for each non-empty one. The split never changes a result: kernels give an output
  /// element the same bits whichever range it falls into.
  void parallel_for(int64_t count, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> work);

  /// Kernels add what they take to `times` from now on; null: they do not look at the clock. It outlives that.
  void time_kernels(KernelTimes* times) { times_ = times; }
  KernelTimes* times() const { return times_; }

 private:
  class Team;
  std::unique_ptr<Team> team_;
  KernelTimes* times_ = nullptr;
};

/// A kernel's first line: what it takes until it returns goes to its kind.
class KernelTimer final {
 public:
  KernelTimer(const Stream& stream, KernelKind kind)
      : times_(stream.times()), kind_(kind), begin_ns_(times_ == nullptr ? 0 : clock_ns()) {}
  ~KernelTimer() {
    if (times_ != nullptr) times_->ns[static_cast<size_t>(kind_)] += clock_ns() - begin_ns_;
  }
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

 private:
  static int64_t clock_ns();

  KernelTimes* const times_;
  const KernelKind kind_;
  const int64_t begin_ns_;
};

}  // namespace krait::kernels
