#include "tests/simulation/process.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/fair_room.h"
#include "common/base/units.h"

namespace krait::simulation {

void Process::turn_at(int64_t time_ns) {
  if (ended_ || (next_turn_ns_ >= 0 && next_turn_ns_ <= time_ns)) return;
  next_turn_ns_ = time_ns;
  events_.at(time_ns, [this, time_ns, alive = std::weak_ptr(alive_)] {
    if (alive.expired() || paused_ || ended_ || next_turn_ns_ != time_ns) return;
    next_turn_ns_ = -1;
    if (turn()) {
      turn_at(events_.now_ns() + limits::kCoreTickNs);
    } else {
      ended_ = true;
      record_.trace("{} has ended", name_);
    }
  });
}

void Process::set_paused(bool paused) {
  paused_ = paused;
  record_.trace("{} is {}", name_, paused ? "paused" : "continued");
  next_turn_ns_ = -1;
  if (!paused) wake();
}

ShardProcess::ShardProcess(std::string name, shard::LoopOptions options, RankShape shape, uint64_t seed,
                           EventQueue& events, Network& network, Meetings& meetings, Record& record)
    : Process(std::move(name), events, record),
      shape_(shape),
      max_queue_(options.leader.max_queue),
      watch_(name_, record),
      transport_(network.make_transport(name_, [this] { wake(); }), watch_),
      runner_(
          shape, seed, events, meetings,
          [this](const wire::Message& command) {
            if (shape_.rank == 0) watch_.commanded(command);
          },
          [this](wire::Message answer) {
            answers_.push_back(std::move(answer));
            wake();
          }) {
  const auto endpoints = shard::open_endpoints(transport_, options.run_dir, options.group, options.join);
  CHECK(endpoints.ok());
  if (shape.rank == 0) transport_.watch(endpoints.value().coordinators);
  loop_ = shard::make_shard_loop(std::move(options), {events_, transport_, endpoints.value(), runner_, metrics_});
  wake();
}

void ShardProcess::set_paused(bool paused) {
  Process::set_paused(paused);
  runner_.set_paused(paused);
}

void ShardProcess::stop() {
  record_.trace("{} is asked to stop", name_);
  ++stop_requests_;
  wake();
}

bool ShardProcess::quiet() const {
  const auto* scheduler = leader() != nullptr ? leader()->scheduler() : nullptr;
  return scheduler == nullptr ||
         (scheduler->running() == 0 && scheduler->waiting() == 0 && scheduler->plans_in_flight() == 0);
}

bool ShardProcess::turn() {
  watch_.begin_turn();
  const auto ended = loop_->turn(stop_requests_, std::exchange(answers_, {}));
  if (leader() != nullptr) check_leader();
  if (!ended) return true;
  record_.saw(ended->ok() ? "shard stopped" : "shard gave up");
  if (!ended->ok()) record_.trace("{}: {}", name_, to_string(ended->error()));
  return false;
}

void ShardProcess::check_leader() {
  const auto* scheduler = leader()->scheduler();
  if (scheduler == nullptr) return;
  if (scheduler->running() + scheduler->free_slots() != shape_.slots) {
    record_.wrong(fmt::format("{}: {} sequences run and {} of {} slots are free", name_, scheduler->running(),
                              scheduler->free_slots(), shape_.slots));
  }
  if (scheduler->running() == 0 && scheduler->used_pages() != 0)
    record_.wrong(fmt::format("{}: nobody runs and {} pages are used", name_, scheduler->used_pages()));
  // What is beyond max_queue found a slot free when it came.
  const int64_t most = int64_t{max_queue_} + shape_.slots;
  if (scheduler->waiting() > most + fair_reserve(most))
    record_.wrong(fmt::format("{}: {} sequences wait", name_, scheduler->waiting()));
  if (std::cmp_greater(scheduler->plans_in_flight(), limits::kMaxPlansInFlight))
    record_.wrong(fmt::format("{}: {} plans are in flight", name_, scheduler->plans_in_flight()));
}

CoordinatorProcess::CoordinatorProcess(std::string name, requests::CoreOptions options, EventQueue& events,
                                       Network& network, Record& record)
    : Process(std::move(name), events, record),
      transport_(network.make_transport(name_, [this] { wake(); })),
      loop_(std::move(options), *transport_, events) {
  CHECK(loop_.connect().ok());
  wake();
}

bool CoordinatorProcess::turn() {
  loop_.turn();
  return true;
}

}  // namespace krait::simulation
