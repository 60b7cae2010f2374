// How a TCP rank waits: it moves bytes meanwhile, spinning at first and then asleep in poll.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/units.h"
#include "shard_server/collectives/tcp_signals.h"

namespace krait::collectives {

Status TcpSignals::wait(std::span<const Goal> goals, int64_t deadline_ns) {
  if (any_reached(goals)) return {};
  const int64_t start_ns = machine_now_ns();
  tell_consumed();
  Status status;
  if (!spinning_.next_spins() || !spin(goals, start_ns))
    status = move_until([&] { return look(goals, deadline_ns); }, deadline_ns);
  waited_ns_ += machine_now_ns() - start_ns;
  return status;
}

// Whether a goal is reached, or why none ever will be.
Result<bool> TcpSignals::look(std::span<const Goal> goals, int64_t deadline_ns) {
  if (any_reached(goals)) return true;
  for (const Goal& goal : goals) {
    const int behind = first_behind(goal);
    const bool is_gone = behind != rank_ && at(behind).data_ended && at(behind).control_ended;
    if (is_gone) fail(Errc::kUnavailable, fmt::format("rank {} is gone", behind));
  }
  RETURN_IF_ERROR(block_health(block_));
  if (clock_.now_ns() < deadline_ns) return false;
  fail(Errc::kDeadlineExceeded, fmt::format("rank {} did not come in time", first_behind(goals.front())));
  return block_health(block_).error();
}

Status TcpSignals::flush(int to, int64_t deadline_ns) {
  const auto unsent = [&] {
    for (int peer = 0; peer < world_; ++peer) {
      if (peer != rank_ && (to == peer || to == Goal::kEveryRank) && at(peer).has_unsent()) return peer;
    }
    return -1;
  };
  if (unsent() < 0) return {};
  return move_until(
      [&]() -> Result<bool> {
        const int peer = unsent();
        if (peer < 0) return true;
        RETURN_IF_ERROR(block_health(block_));
        if (clock_.now_ns() < deadline_ns) return false;
        fail(Errc::kDeadlineExceeded, fmt::format("rank {} did not read in time", peer));
        return block_health(block_).error();
      },
      deadline_ns);
}

// `done` says whether it is, or why it never will be.
template <class Done>
Status TcpSignals::move_until(const Done& done, int64_t deadline_ns) {
  while (true) {
    ASSIGN_OR_RETURN(const bool is_done, done());
    if (is_done) return {};
    // Slices: the clock may be another than the machine's.
    poll_once(std::clamp<int64_t>(deadline_ns - clock_.now_ns(), 0, limits::kCollectiveSleepNs));
  }
}

bool TcpSignals::spin(std::span<const Goal> goals, int64_t start_ns) {
  const auto is_behind = [&](int peer) {
    return std::any_of(goals.begin(), goals.end(), [&](const Goal& goal) {
      const bool concerns = goal.peer == Goal::kEveryRank || goal.peer == peer;
      return concerns && counter_of(goal, peer).load(std::memory_order_relaxed) < goal.steps;
    });
  };
  while (true) {
    for (int peer = 0; peer < world_; ++peer) {
      if (peer == rank_ || !is_behind(peer)) continue;
      read_data(peer);
      if (at(peer).has_unsent()) send_queued(peer);
    }
    const bool well = any_reached(goals);
    if (well || machine_now_ns() - start_ns > limits::kCollectiveSpinNs) {
      spinning_.spun(well);
      return well;
    }
    relax();
  }
}

void TcpSignals::poll_once(int64_t most_ns) {
  polled_.clear();
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    const Peer& p = at(peer);
    const int events = (p.data_ended ? 0 : POLLIN) | (p.has_unsent() ? POLLOUT : 0);
    // Those that ended would be ready for ever.
    polled_.push_back({events == 0 ? -1 : p.data.get(), static_cast<short>(events), 0});
    polled_.push_back({p.control_ended ? -1 : p.control.get(), POLLIN, 0});
  }
  polled_.push_back({bell_.get(), POLLIN, 0});
  const timespec timeout{most_ns / kSecond, most_ns % kSecond};
  if (ppoll(polled_.data(), polled_.size(), &timeout, nullptr) <= 0) return;
  size_t place = 0;
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    // Its last word first: it says why there will be no more data.
    const short data = polled_[place++].revents, control = polled_[place++].revents;
    if (control != 0) read_control(peer);
    if ((data & POLLOUT) != 0) send_queued(peer);
    if ((data & ~POLLOUT) != 0) read_data(peer);
  }
  uint64_t rung = 0;
  if (polled_[place].revents != 0) [[maybe_unused]]
    const ssize_t got = read(bell_.get(), &rung, sizeof rung);
}

}  // namespace krait::collectives
