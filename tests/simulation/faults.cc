// Which faults befall a simulated cluster, and when.
#include <utility>

#include "common/base/units.h"
#include "tests/simulation/simulation.h"

namespace krait::simulation {
namespace {

constexpr int64_t kFirstFaultNs = 100 * kMs;
constexpr int64_t kLastFaultNs = 6 * kSecond;

}  // namespace

void Simulation::draw_faults() {
  faulty_ = random_.below(5) != 0;
  if (!faulty_) return;
  for (uint64_t count = 1 + random_.below(5); count > 0; --count) {
    const auto when_ns = kFirstFaultNs + static_cast<int64_t>(random_.below(kLastFaultNs - kFirstFaultNs));
    events_.after(when_ns, [this, kind = random_.below(16)] { fault(kind); });
  }
}

void Simulation::fault(uint64_t kind) {
  if (healed_ns_ != 0) return;
  if (kind < 3) {
    message_faults();
  } else if (kind < 5) {
    network_.cut_one(static_cast<int64_t>(random_.below(random_.below(3) == 0 ? 6000 : 100)) * kMs);
  } else if (kind < 6) {
    network_.stall_one(static_cast<int64_t>(random_.below(6000)) * kMs);
  } else if (kind < 12) {
    shard_fault(kind - 6);
  } else {
    coordinator_fault(kind - 12);
  }
}

void Simulation::message_faults() {
  MessageFaults faults;
  const uint64_t odds = 5 + random_.below(60);
  const uint64_t which = random_.below(4);
  if (which == 0 || which == 3) faults.lost = odds;
  if (which == 1 || which == 3) faults.doubled = odds;
  if (which == 2 || which == 3) faults.overtaken = odds;
  network_.set_faults(faults);
  events_.after(static_cast<int64_t>(50 + random_.below(1500)) * kMs, [this] { network_.set_faults({}); });
}

void Simulation::pause(Process& process) {
  if (process.paused()) return;
  record_.saw("process paused");
  process.set_paused(true);
  paused_.push_back(&process);
  events_.after(static_cast<int64_t>(10 + random_.below(random_.below(2) == 0 ? 500 : 6000)) * kMs, [this, &process] {
    // It may have been killed meanwhile.
    if (std::erase(paused_, &process) > 0) process.set_paused(false);
  });
}

void Simulation::shard_fault(uint64_t kind) {
  Group& group = groups_[random_.below(groups_.size())];
  Shard& shard = group.shards[random_.below(group.shards.size())];
  if (shard.process == nullptr || shard.process->ended()) return;
  if (kind < 2) {
    std::erase(paused_, shard.process.get());
    kill_shard(group, shard);
  } else if (kind < 4) {
    pause(*shard.process);
  } else if (kind < 5) {
    shard.process->stop();
    if (random_.below(4) == 0) shard.process->stop();
  } else {
    record_.saw("load fails");
    shard.process->fail_next_load();
    Shard& other = group.shards[random_.below(group.shards.size())];
    if (&other == &shard || other.process == nullptr) return;
    std::erase(paused_, other.process.get());
    kill_shard(group, other);
  }
}

void Simulation::coordinator_fault(uint64_t kind) {
  const size_t index = random_.below(coordinators_.size());
  Coordinator& coordinator = coordinators_[index];
  if (coordinator.process == nullptr) return;
  if (kind < 2) {
    std::erase(paused_, coordinator.process.get());
    kill_coordinator(index);
  } else if (kind < 3) {
    pause(*coordinator.process);
  } else if (!coordinator.draining) {
    record_.saw("coordinator drained");
    coordinator.draining = true;
    coordinator.process->core().drain();
    // It ends when what is open has ended, or after a while.
    events_.after(2 * kSecond, [this, index] {
      Coordinator& it = coordinators_[index];
      if (it.process == nullptr || !it.draining) return;
      it.process->core().fail_all(Error{Errc::kUnavailable, "the server is shutting down", ""});
      std::erase(paused_, it.process.get());
      it.process.reset();
      start_coordinator(index);
    });
  }
}

void Simulation::end_faults() {
  network_.set_faults({});
  for (Process* process : std::exchange(paused_, {}))
    process->set_paused(false);
}

}  // namespace krait::simulation
