// How a rank waits for the others' counters, and how it wakes them: a short spin where that is allowed, then a sleep on
// a futex word of its own, which whoever moves a counter rings if it sees the rank asleep.
#pragma once

#include <array>
#include <cstdint>

#include "shard_server/collectives/block.h"

namespace krait::collectives {

/// Wakes the rank whose line this is, whether it sleeps or is about to.
void ring(SleepLine& line);

class Signals final {
 public:
  Signals(Block block, int rank, bool may_spin, const Clock& clock);

  /// Sets this rank's counter and rings the ranks that sleep. What was written before is visible to who sees it.
  void publish(Counter which, int64_t steps);

  /// Whether every rank's counter is at `steps` or past it.
  bool reached(Counter which, int64_t steps);

  /// Waits for reached(). The group's failure, which at `deadline_ns` this rank causes itself.
  Status wait(Counter which, int64_t steps, int64_t deadline_ns);

  /// Nanoseconds spent waiting since this was last asked.
  int64_t take_waited_ns();

 private:
  bool rank_reached(Counter which, int peer, int64_t steps);
  int first_behind(Counter which, int64_t steps);
  bool spin(Counter which, int64_t steps, int64_t start_ns);
  Status sleep(Counter which, int64_t steps, int64_t deadline_ns);

  const Block block_;
  const int rank_;
  const int world_;
  const bool may_spin_;
  const Clock& clock_;
  // The last seen values: a peer's line is fetched only when the old value does not do.
  std::array<std::array<int64_t, limits::kMaxWorld>, kCounters> seen_{};
  int64_t waited_ns_ = 0;
};

/// Monotonic nanoseconds of the machine, for durations and spins (deadlines are on the communicator's clock).
int64_t machine_now_ns();

}  // namespace krait::collectives
