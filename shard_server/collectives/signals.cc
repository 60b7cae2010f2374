#include "shard_server/collectives/signals.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "common/base/units.h"
#include "shard_server/collectives/operation.h"

namespace krait::collectives {
namespace {

constexpr int kSpinsPerLook = 64;  // polls between two looks at the clock and at the failure line

// The word may lie in a segment that several processes map, so no FUTEX_PRIVATE_FLAG.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout{.tv_sec = timeout_ns / kSecond, .tv_nsec = timeout_ns % kSecond};
  // EAGAIN, EINTR and ETIMEDOUT all mean "look again", which the caller does.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t machine_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void ring(SleepLine& line) {
  line.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(line.bell);
}

bool Signals::any_reached(std::span<const Goal> goals) {
  return std::any_of(goals.begin(), goals.end(), [this](const Goal& goal) { return reached(goal); });
}

SharedSignals::SharedSignals(Block block, int rank, bool may_spin, const Clock& clock)
    : block_(block), rank_(rank), world_(block.world()), spinning_(may_spin), clock_(clock) {}

void SharedSignals::publish(Counter which, const Operation& operation, uint32_t chunk) {
  const int64_t steps = operation.first_step + chunk + 1;
  // Store the counter, then look who sleeps; a sleeper says so, then looks at the counter. All four are sequentially
  // consistent, so one of the two sees the other and no wake-up is lost.
  block_.counter(which, rank_).store(steps, std::memory_order_seq_cst);
  seen_[static_cast<size_t>(which)][static_cast<size_t>(rank_)] = steps;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer != rank_) ring_if_asleep(peer);
  }
}

void SharedSignals::publish_sent(int to, int64_t pieces) {
  block_.sent(rank_, to).store(pieces, std::memory_order_seq_cst);
  ring_if_asleep(to);
}

void SharedSignals::publish_taken(int from, int64_t pieces, bool) {
  block_.taken(from, rank_).store(pieces, std::memory_order_seq_cst);
  ring_if_asleep(from);
}

void SharedSignals::ring_if_asleep(int peer) {
  SleepLine& line = block_.lines(peer).sleep;
  if (line.sleeping.load(std::memory_order_seq_cst) != 0) ring(line);
}

bool SharedSignals::rank_reached(Counter which, int peer, int64_t steps) {
  int64_t& seen = seen_[static_cast<size_t>(which)][static_cast<size_t>(peer)];
  if (seen >= steps) return true;
  seen = block_.counter(which, peer).load(std::memory_order_seq_cst);
  return seen >= steps;
}

int SharedSignals::first_behind(const Goal& goal) {
  if (goal.peer != Goal::kEveryRank) {
    const std::atomic<int64_t>& counter =
        goal.which == Counter::kSent ? block_.sent(goal.peer, rank_) : block_.taken(rank_, goal.peer);
    return counter.load(std::memory_order_seq_cst) >= goal.steps ? -1 : goal.peer;
  }
  for (int peer = 0; peer < world_; ++peer) {
    if (!rank_reached(goal.which, peer, goal.steps)) return peer;
  }
  return -1;
}

Status SharedSignals::wait(std::span<const Goal> goals, int64_t deadline_ns) {
  if (any_reached(goals)) return {};
  const int64_t start_ns = machine_now_ns();
  Status status;
  if (!spinning_.next_spins() || !spin(goals, start_ns)) status = sleep(goals, deadline_ns);
  waited_ns_ += machine_now_ns() - start_ns;
  return status;
}

bool SharedSignals::spin(std::span<const Goal> goals, int64_t start_ns) {
  bool well = true;
  for (int64_t polls = 1; !any_reached(goals); ++polls) {
    relax();
    if (polls % kSpinsPerLook != 0) continue;
    well = machine_now_ns() - start_ns <= limits::kCollectiveSpinNs &&
           block_.header().failure.state.load(std::memory_order_acquire) == 0;
    if (!well) break;
  }
  spinning_.spun(well);
  return well;
}

Status SharedSignals::sleep(std::span<const Goal> goals, int64_t deadline_ns) {
  SleepLine& line = block_.lines(rank_).sleep;
  Status status;
  while (true) {
    line.sleeping.store(1, std::memory_order_seq_cst);
    const uint32_t bell = line.bell.load(std::memory_order_seq_cst);
    const int behind = first_behind(goals.front());
    if (behind < 0 || any_reached(goals)) break;
    status = block_health(block_);
    if (!status.ok()) break;
    const int64_t left_ns = deadline_ns - clock_.now_ns();
    if (left_ns <= 0) {
      fail(Errc::kDeadlineExceeded, fmt::format("rank {} did not come in time", behind));
      status = block_health(block_);
      break;
    }
    // Slices: the clock may be another than the machine's, and a peer may die between its counter and its ring.
    futex_wait(line.bell, bell, std::min(left_ns, limits::kCollectiveSleepNs));
  }
  line.sleeping.store(0, std::memory_order_relaxed);
  return status;
}

}  // namespace krait::collectives
