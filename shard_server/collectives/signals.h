// How ranks tell each other how far they have come, wait for each other and fail together. Between ranks that share a
// block (SharedSignals) that is a counter and a futex: a short spin where that is allowed, then a sleep on a word of
// its own, which whoever moves a counter rings if it sees the rank asleep. tcp_signals.h is the one between hosts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "shard_server/collectives/block.h"

namespace krait::collectives {

/// Wakes the rank whose line this is, whether it sleeps or is about to.
void ring(SleepLine& line);

struct Operation;

class Signals {
 public:
  virtual ~Signals() = default;

  /// Sets this rank's counter past the chunk's step. What the others need for it of this rank's stage is then on its
  /// way, and visible to who sees the counter.
  virtual void publish(Counter which, const Operation& operation, uint32_t chunk) = 0;

  /// Whether every rank's counter is at `steps` or past it.
  virtual bool reached(Counter which, int64_t steps) = 0;

  /// Waits for reached(). The group's failure, which at `deadline_ns` this rank causes itself.
  virtual Status wait(Counter which, int64_t steps, int64_t deadline_ns) = 0;

  /// Waits until all that was published reaches the others without this rank's doing.
  virtual Status flush(int64_t deadline_ns) = 0;

  /// Fails the group unless it has failed already, and wakes every rank. For any thread.
  virtual void fail(Errc code, std::string_view reason) = 0;

  /// Nanoseconds spent waiting since this was last asked.
  int64_t take_waited_ns() { return std::exchange(waited_ns_, 0); }

 protected:
  int64_t waited_ns_ = 0;
};

class SharedSignals final : public Signals {
 public:
  SharedSignals(Block block, int rank, bool may_spin, const Clock& clock);

  void publish(Counter which, const Operation& operation, uint32_t chunk) override;
  bool reached(Counter which, int64_t steps) override;
  Status wait(Counter which, int64_t steps, int64_t deadline_ns) override;
  Status flush(int64_t) override { return {}; }
  void fail(Errc code, std::string_view reason) override { fail_block(block_, rank_, code, reason); }

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
};

/// A pause within a spin.
void relax();

/// Monotonic nanoseconds of the machine, for durations and spins (deadlines are on the communicator's clock).
int64_t machine_now_ns();

}  // namespace krait::collectives
