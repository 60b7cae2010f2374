#include "tests/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "common/base/log_capture.h"
#include "common/base/units.h"
#include "common/wire/addresses.h"
#include "tests/simulation/token_function.h"

namespace krait::simulation {
namespace {

constexpr int64_t kLoadNs = 6 * kSecond;       // clients ask, and faults befall, for that long
constexpr int64_t kRecoveryNs = 90 * kSecond;  // the longest that a protocol's timers together may take
constexpr int64_t kFreshNs = 10 * kSecond;     // a request of a cluster that has recovered
constexpr int64_t kQuietNs = 30 * kSecond;     // what nobody waits for any more has its deadline too
constexpr int64_t kSlackNs = 1 * kSecond;      // an end may come this long after its deadline
constexpr int64_t kSliceNs = 100 * kMs;

NetworkOptions draw_network(uint64_t seed) {
  SplitMix64 random(mix(seed, 1));
  NetworkOptions options;
  options.latency_ns = static_cast<int64_t>(20 + random.below(1000)) * kUs;
  options.jitter_ns = static_cast<int64_t>(random.below(3000)) * kUs;
  if (random.below(4) == 0) options.high_water_mark = 64;
  return options;
}

}  // namespace

Simulation::Simulation(uint64_t seed, bool keep_trace)
    : record_(events_, keep_trace),
      random_(mix(seed, 0)),
      network_(draw_network(seed), mix(seed, 2), events_, record_),
      workload_(mix(seed, 3)) {
  capture_log([this](LogLevel, std::string_view line) { record_.trace("log: {}", line); });
  draw_cluster();
}

Simulation::~Simulation() {
  capture_log(nullptr);
}

template <class Work>
void Simulation::for_all_shards(const Work& work) {
  for (auto& group : groups_) {
    for (auto& shard : group.shards)
      work(group, shard);
  }
}

void Simulation::draw_cluster() {
  const size_t groups = 1 + random_.below(3);
  for (size_t g = 0; g < groups; ++g) {
    Group& group = groups_.emplace_back();
    group.name = fmt::format("g{}", g);
    group.max_queue = random_.below(3) == 0 ? 1 : 16;
    group.max_step_ms = static_cast<double>(5 + random_.below(20));
    const auto world = static_cast<uint32_t>(1 + random_.below(4));
    const auto slots = static_cast<uint32_t>(1 + random_.below(6));
    const auto max_rows = static_cast<uint32_t>(slots + 16 + random_.below(40));
    // The largest requests need nine.
    const auto pages = static_cast<uint32_t>(random_.below(2) == 0 ? 0 : 9 + random_.below(16));
    for (uint32_t rank = 0; rank < world; ++rank)
      group.shards.push_back({{rank, world, slots, max_rows, pages}, nullptr, false});
    record_.saw(fmt::format("group of {}", world));
    record_.saw(pages > 0 ? "group with pages" : "group without pages");
  }
  const size_t coordinators = 1 + random_.below(3);
  for (size_t c = 0; c < coordinators; ++c)
    coordinators_.push_back({fmt::format("c{}", c), nullptr, false});
  record_.trace("{} groups, {} coordinators", groups, coordinators);
}

void Simulation::start_shard(Group& group, Shard& shard) {
  shard.restarting = false;
  shard.process.reset();
  shard::LoopOptions options;
  options.group = group.name;
  options.run_dir = "simulated";
  options.drain_seconds = 2;
  options.join.incarnation = random_.next();
  options.join.rank = shard.shape.rank;
  options.join.world = shard.shape.world;
  options.join.version = "simulated";
  options.join.fingerprint = "simulated";
  options.join.dtype = "f32";
  options.join.path = "portable";
  options.leader.group = fmt::format("{}-{:x}", group.name, options.join.incarnation);
  options.leader.model = "m";
  options.leader.world = shard.shape.world;
  options.leader.self = options.join;
  options.leader.max_queue = group.max_queue;
  options.leader.max_step_ms = group.max_step_ms;
  options.leader.vocab_size = kVocab;
  options.leader.incarnation = options.join.incarnation;
  options.leader.new_epoch = [this] { return random_.next(); };
  auto name = fmt::format("{}/{}", group.name, shard.shape.rank);
  record_.trace("{} starts, {:x}", name, options.join.incarnation);
  shard.process = std::make_unique<ShardProcess>(std::move(name), std::move(options), shard.shape, random_.next(),
                                                 events_, network_, meetings_, record_);
}

void Simulation::start_coordinator(size_t index) {
  Coordinator& coordinator = coordinators_[index];
  coordinator.draining = false;
  requests::CoreOptions options;
  options.name = coordinator.name;
  options.incarnation = random_.next();
  options.model = "m";
  options.fingerprint = "simulated";
  for (const auto& group : groups_) {
    options.groups.push_back(group.name);
    options.addresses.push_back(wire::leader_address("simulated", group.name));
  }
  record_.trace("{} starts, {:x}", coordinator.name, options.incarnation);
  coordinator.process =
      std::make_unique<CoordinatorProcess>(coordinator.name, std::move(options), events_, network_, record_);
}

void Simulation::kill_shard(Group& group, Shard& shard) {
  record_.trace("{}/{} is killed", group.name, shard.shape.rank);
  record_.saw(shard.shape.rank == 0 ? "leader killed" : "rank killed");
  shard.process.reset();
  shard.restarting = true;
  events_.after(static_cast<int64_t>(50 + random_.below(4000)) * kMs, [&] {
    if (shard.restarting) start_shard(group, shard);
  });
}

void Simulation::kill_coordinator(size_t index) {
  record_.trace("{} is killed", coordinators_[index].name);
  record_.saw("coordinator killed");
  coordinators_[index].process.reset();
  for (auto& request : clients_) {
    if (request.coordinator == index && !request.client->over()) request.client->lose_coordinator();
  }
  events_.after(static_cast<int64_t>(20 + random_.below(4000)) * kMs, [this, index] {
    if (coordinators_[index].process == nullptr) start_coordinator(index);
  });
}

void Simulation::restart_ended_shards() {
  for_all_shards([&](Group& group, Shard& shard) {
    if (shard.restarting || shard.process == nullptr || !shard.process->ended()) return;
    shard.process.reset();
    shard.restarting = true;
    events_.after(static_cast<int64_t>(100 + random_.below(1500)) * kMs, [&] {
      if (shard.restarting) start_shard(group, shard);
    });
  });
}

void Simulation::draw_requests() {
  const uint64_t count = 5 + random_.below(25);
  const bool burst = random_.below(3) == 0;
  const auto burst_ns = static_cast<int64_t>(1000 + random_.below(3000)) * kMs;
  for (uint64_t i = 0; i < count; ++i) {
    const auto when_ns = burst && i > 4 ? burst_ns : static_cast<int64_t>(random_.below(kLoadNs / kMs)) * kMs;
    const size_t coordinator = random_.below(coordinators_.size());
    events_.after(when_ns, [this, coordinator] {
      submit(coordinator, workload_.any());
      if (random_.below(8) != 0) return;
      events_.after(static_cast<int64_t>(random_.below(150)) * kMs,
                    [this, request = clients_.size() - 1] { disconnect(request); });
    });
  }
}

void Simulation::submit(size_t index, requests::GenerationSpec spec) {
  auto* process = coordinators_[index].process.get();
  const requests::RequestId id = ++last_id_;
  const int64_t deadline_ns = events_.now_ns() + spec.timeout_ms * kMs;
  auto client = std::make_shared<Client>(fmt::format("request {} at {}", id, coordinators_[index].name), spec,
                                         deadline_ns, events_, record_);
  record_.trace("{} asks for {} x ({} + {})", client->name(), spec.sequences(), spec.prompts[0].tokens.size(),
                spec.shared.max_tokens);
  const bool valid = spec.prompts[0].tokens.back() < kVocab;
  clients_.push_back({index, id, valid && spec.timeout_ms == kPatientMs, client});
  if (process == nullptr || process->paused()) {
    client->lose_coordinator();  // nobody takes the connection
    return;
  }
  process->core().submit(id, std::move(spec), client);
  process->wake();
}

void Simulation::disconnect(size_t index) {
  Request& request = clients_[index];
  auto* process = coordinators_[request.coordinator].process.get();
  if (request.client->over() || process == nullptr) return;
  request.client->disconnect();
  process->core().cancel(request.id);
  process->wake();
}

void Simulation::slice(int64_t ns) {
  events_.run_until(events_.now_ns() + ns);
  restart_ended_shards();
  check_clients();
}

template <class Done>
bool Simulation::wait_for(std::string_view what, int64_t most_ns, const Done& done) {
  const int64_t until_ns = events_.now_ns() + most_ns;
  while (!done()) {
    if (events_.now_ns() >= until_ns) {
      record_.wrong(fmt::format("not within {} s: {}", most_ns / kSecond, what));
      return false;
    }
    slice(kSliceNs);
  }
  return true;
}

bool Simulation::serving() const {
  return std::all_of(coordinators_.begin(), coordinators_.end(), [&](const Coordinator& coordinator) {
    if (coordinator.process == nullptr || coordinator.draining) return false;
    const auto groups = coordinator.process->core().groups();
    return std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.serving; });
  });
}

bool Simulation::all_over() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const Request& request) { return request.client->over(); });
}

bool Simulation::quiet() const {
  for (const auto& coordinator : coordinators_) {
    if (coordinator.process == nullptr || coordinator.process->core().open_requests() != 0) return false;
  }
  for (const auto& group : groups_) {
    const auto& leader = group.shards[0].process;
    if (leader == nullptr || leader->leader()->state() != wire::GroupState::kServing || !leader->quiet()) return false;
  }
  return true;
}

void Simulation::check_clients() {
  for (const auto& request : clients_) {
    const int64_t latest_ns = std::max(request.client->deadline_ns(), healed_ns_) + kSlackNs;
    if (healed_ns_ == 0 && faulty_) continue;
    if (!request.client->over() && events_.now_ns() > latest_ns) {
      record_.wrong(fmt::format("{} has not ended after its deadline", request.client->name()));
    }
  }
}

void Simulation::check_fault_free() {
  for (const auto& request : clients_) {
    const auto& error = request.client->error();
    if (request.patient && error && error->code != Errc::kOverloaded)
      record_.wrong(fmt::format("{} fails without a fault: {}", request.client->name(), to_string(*error)));
  }
  for (auto& group : groups_) {
    if (group.shards[0].process->leader()->stats().epochs != 1)
      record_.wrong(fmt::format("{} formed more than once without a fault", group.name));
  }
}

void Simulation::check_quiet() {
  for (const auto& coordinator : coordinators_) {
    for (const auto& group : coordinator.process->core().groups()) {
      if (group.open_sequences != 0)
        record_.wrong(fmt::format("{} holds sequences of no request at {}", coordinator.name, group.name));
    }
  }
  for (auto& group : groups_)
    group.shards[0].process->check_quiet();
}

void Simulation::run() {
  for_all_shards([&](Group& group, Shard& shard) { start_shard(group, shard); });
  for (size_t index = 0; index < coordinators_.size(); ++index)
    start_coordinator(index);
  if (!wait_for("every group serves for the first time", kFreshNs, [&] { return serving(); })) return;
  began_ns_ = events_.now_ns();
  draw_requests();
  draw_faults();
  while (events_.now_ns() < began_ns_ + kLoadNs + kSecond)
    slice(kSliceNs);
  end_faults();
  healed_ns_ = events_.now_ns();
  slice(limits::kPeerTimeoutNs + kSecond);  // what was lost is known by then
  const auto recovered = [&] { return serving() && all_over() && quiet(); };
  if (!wait_for("every group serves again, no request is open and no step is under way", kRecoveryNs, recovered))
    return;
  for (size_t index = 0; index < coordinators_.size(); ++index) {
    submit(index, workload_.plain());
    wait_for("a fresh request is over", kFreshNs, [&] { return all_over(); });
    const Client& fresh = *clients_.back().client;
    if (!fresh.answered()) record_.wrong(fmt::format("{}, after the recovery, fails", fresh.name()));
  }
  if (wait_for("all is quiet", kQuietNs, [&] { return quiet(); })) check_quiet();
  if (!faulty_) check_fault_free();
  if (network_.longest_queue() > 16'384) record_.wrong("a queue of the network grew beyond its limit");
}

}  // namespace krait::simulation
