// How ranks tell each other how far they have come, wait for each other and fail together. Between ranks that share a
// block (SharedSignals) that is a counter and a futex: a short spin where that pays, then a sleep on a word of
// its own, which whoever moves a counter rings if it sees the rank asleep. tcp_signals.h is the one between hosts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "shard_server/collectives/adaptive_spin.h"
#include "shard_server/collectives/block.h"

namespace krait::collectives {

/// Wakes the rank whose line this is, whether it sleeps or is about to.
void ring(SleepLine& line);

struct Operation;

/// What a wait is for: that every rank's counter is at `steps` or past it; of kSent and kTaken, that of the messages
/// from and to `peer`.
struct Goal final {
  Counter which = Counter::kPosted;
  int64_t steps = 0;
  int peer = kEveryRank;

  static constexpr int kEveryRank = -1;
};

class Signals {
 public:
  virtual ~Signals() = default;

  /// Sets this rank's counter past the chunk's step. What the others need for it of this rank's stage is then on its
  /// way, and visible to who sees the counter.
  virtual void publish(Counter which, const Operation& operation, uint32_t chunk) = 0;

  /// Sets the count of pieces sent to rank `to`, one more than it was. The piece is then on its way with its note.
  virtual void publish_sent(int to, int64_t pieces) = 0;

  /// Sets the count of pieces taken of those that rank `from` sent. It may hear of it later unless `is_last`, of a
  /// message.
  virtual void publish_taken(int from, int64_t pieces, bool is_last) = 0;

  bool reached(const Goal& goal) { return first_behind(goal) < 0; }

  /// Waits until one of `goals` is reached. The group's failure, which at `deadline_ns` this rank causes itself, for
  /// the sake of the first goal.
  virtual Status wait(std::span<const Goal> goals, int64_t deadline_ns) = 0;

  /// Moves what can be moved without waiting.
  virtual void move() = 0;

  /// Waits until all that was published reaches rank `to`, or every rank, without this rank's doing.
  virtual Status flush(int to, int64_t deadline_ns) = 0;

  /// Fails the group unless it has failed already, and wakes every rank. For any thread.
  virtual void fail(Errc code, std::string_view reason) = 0;

  /// Nanoseconds spent waiting since this was last asked.
  int64_t take_waited_ns() { return std::exchange(waited_ns_, 0); }

 protected:
  /// A rank that is not there yet, or -1.
  virtual int first_behind(const Goal& goal) = 0;
  bool any_reached(std::span<const Goal> goals);

  int64_t waited_ns_ = 0;
};

class SharedSignals final : public Signals {
 public:
  SharedSignals(Block block, int rank, bool may_spin, const Clock& clock);

  void publish(Counter which, const Operation& operation, uint32_t chunk) override;
  void publish_sent(int to, int64_t pieces) override;
  void publish_taken(int from, int64_t pieces, bool is_last) override;
  Status wait(std::span<const Goal> goals, int64_t deadline_ns) override;
  void move() override {}
  Status flush(int, int64_t) override { return {}; }
  void fail(Errc code, std::string_view reason) override { fail_block(block_, rank_, code, reason); }

 private:
  bool rank_reached(Counter which, int peer, int64_t steps);
  int first_behind(const Goal& goal) override;
  void ring_if_asleep(int peer);
  bool spin(std::span<const Goal> goals, int64_t start_ns);
  Status sleep(std::span<const Goal> goals, int64_t deadline_ns);

  const Block block_;
  const int rank_;
  const int world_;
  AdaptiveSpin spinning_;
  const Clock& clock_;
  // The last seen values: a peer's line is fetched only when the old value does not do.
  std::array<std::array<int64_t, limits::kMaxWorld>, kCounters> seen_{};
};

/// A pause within a spin.
void relax();

/// Monotonic nanoseconds of the machine, for durations and spins (deadlines are on the communicator's clock).
int64_t machine_now_ns();

}  // namespace krait::collectives
