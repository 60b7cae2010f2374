#include "tests/support/cluster/loopback_cluster.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/wire/codec.h"
#include "kernels/device/cpu_path.h"
#include "shard_server/collectives/loopback.h"

namespace krait::test {
namespace {

constexpr const char* kPeer = "coordinator-1";
constexpr auto kLongestStep = std::chrono::seconds(120);  // real time; only a fault takes that long

template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(to_string(result.error()));
  return std::move(result).value();
}

wire::Message through_the_wire(std::span<const std::byte> bytes) {
  return value_or_throw(wire::decode(bytes));
}

/// Where the ranks of one forming meet: by the name that Form carries, which is never used twice.
std::shared_ptr<collectives::LoopbackHub> hub_of(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<collectives::LoopbackHub>> hubs;
  const std::scoped_lock lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  auto hub = hubs[name].lock();
  if (hub == nullptr) hubs[name] = hub = collectives::make_loopback_hub();
  return hub;
}

}  // namespace

LoopbackCluster::LoopbackCluster(const LoopbackClusterOptions& options) : options_(options), random_(options.seed) {
  static std::atomic<int> clusters = 0;
  name_ = fmt::format("loopback{}", ++clusters);
  checkpoint_ = value_or_throw(Checkpoint::open(options.model_dir));
  if (options.with_tokenizer) {
    tokenizer_ = value_or_throw(tokenizer::Tokenizer::load(options.model_dir + "/tokenizer.json"));
  }
  ranks_.resize(static_cast<size_t>(options.world));
  for (int rank = 0; rank < options.world; ++rank)
    start_rank(rank);
  leader_ = std::make_unique<shard::Leader>(leader_options(ranks_[0].join), clock_);
  start_coordinator();
  pump_until([this] { return serving(); });
}

LoopbackCluster::~LoopbackCluster() {
  // Whoever waits for a peer that was cut off has waited long enough.
  clock_.advance(10 * limits::kCollectiveTimeoutNs);
  for (auto& rank : ranks_)
    rank.worker->abort("the test is over");
}

void LoopbackCluster::start_rank(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  self.join.incarnation = ++incarnations_;
  self.join.rank = static_cast<uint32_t>(rank);
  self.join.world = static_cast<uint32_t>(options_.world);
  self.join.fingerprint = checkpoint_->fingerprint();
  self.join.dtype = weight_type_name(options_.dtype);
  self.join.path = kernels::cpu_path_name(kernels::best_cpu_path());
  self.last_said_ns = clock_.now_ns() - limits::kHeartbeatNs;
  shard::RankOptions rank_options;
  rank_options.rank = rank;
  rank_options.world = options_.world;
  rank_options.dtype = options_.dtype;
  rank_options.threads = options_.threads;
  rank_options.slots = options_.slots;
  rank_options.hub_of = hub_of;
  rank_options.on_load = [this, rank](shard::Engine& engine) { tap(engine, rank); };
  auto model = std::make_unique<shard::EngineRank>(rank_options, checkpoint_, clock_);
  self.worker = std::make_unique<shard::RankWorker>(
      std::make_unique<shard::RankExecutor>(self.join.rank, std::move(model)), [this, rank](wire::Message answer) {
        const std::scoped_lock lock(mutex_);
        answers_.emplace_back(static_cast<size_t>(rank), std::move(answer));
      });
}

void LoopbackCluster::tap(shard::Engine& engine, int rank) {
  {
    const std::scoped_lock lock(mutex_);
    ranks_[static_cast<size_t>(rank)].engine = &engine;
  }
  if (!options_.keep_logits) return;
  engine.set_logit_tap([this, rank](int32_t row, std::span<const float> logits) {
    if (rank != 0) return;
    const std::scoped_lock lock(mutex_);
    logits_[{running_step_, row}].assign(logits.begin(), logits.end());
  });
}

shard::LeaderOptions LoopbackCluster::leader_options(const wire::Join& self) {
  shard::LeaderOptions options;
  options.group = name_;
  options.model = kModel;
  options.world = static_cast<uint32_t>(options_.world);
  options.self = self;
  options.codec = options_.codec;
  options.transport = "loopback";
  options.slots = options_.slots;
  options.max_queue = options_.max_queue;
  options.max_step_ms = options_.max_step_ms;
  options.vocab_size = checkpoint_->config().vocab_size;
  options.incarnation = ++incarnations_;
  options.new_epoch = [this] { return random_.next(); };
  return options;
}

void LoopbackCluster::start_coordinator() {
  requests::CoreOptions options;
  options.name = kPeer;
  options.incarnation = ++incarnations_;
  options.groups = {name_};
  options.addresses = {"loopback"};
  options.tokenizer = tokenizer_;
  core_ = std::make_unique<requests::RequestCore>(options, clock_);
}

void LoopbackCluster::restart_coordinator() {
  to_leader_.clear();
  to_coordinator_.clear();
  coordinator_cut_ = false;
  start_coordinator();
}

void LoopbackCluster::restart_rank(int rank) {
  Rank& self = ranks_.at(static_cast<size_t>(rank));
  self.worker->abort("this process was killed");
  self.worker.reset();
  self = Rank{};
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(answers_, [&](const auto& answer) { return answer.first == static_cast<size_t>(rank); });
  }
  start_rank(rank);
}

std::pair<requests::RequestId, std::shared_ptr<RecordingSink>> LoopbackCluster::submit(requests::GenerationSpec spec) {
  spec.model = kModel;
  auto sink = std::make_shared<RecordingSink>(spec.sequences());
  const requests::RequestId id = next_request_++;
  core_->submit(id, std::move(spec), sink);
  return {id, sink};
}

bool LoopbackCluster::serving() const {
  return core_->groups().at(0).serving;
}

size_t LoopbackCluster::arrivals(const Link& link) {
  return options_.jitter && !link.empty() ? random_.below(link.size() + 1) : link.size();
}

void LoopbackCluster::pump_coordinator() {
  for (size_t left = arrivals(to_coordinator_); left > 0; --left) {
    core_->from_group(0, through_the_wire(to_coordinator_.front()));
    to_coordinator_.pop_front();
  }
  core_->tick();
  while (const auto out = core_->next_outgoing())
    to_leader_.push_back(wire::encode(out->message));
  if (coordinator_cut_) to_leader_.clear();
}

void LoopbackCluster::pump_leader() {
  leader_->from_rank(0, wire::Heartbeat{ranks_[0].join.incarnation});
  if (leader_->state() == wire::GroupState::kWaiting) leader_->from_rank(0, ranks_[0].join);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Link& link = ranks_[rank].to_leader;
    if (ranks_[rank].cut) link.clear();
    for (size_t left = arrivals(link); left > 0; --left) {
      leader_->from_rank(rank, through_the_wire(link.front()));
      link.pop_front();
    }
  }
  for (size_t left = arrivals(to_leader_); left > 0; --left) {
    leader_->from_coordinator(kPeer, through_the_wire(to_leader_.front()));
    to_leader_.pop_front();
  }
  leader_->tick();
  if (const auto reason = leader_->take_abort()) ranks_[0].worker->abort(*reason);
  for (const auto& out : leader_->take_rank_messages()) {
    ranks_.at(out.rank).to_rank.push_back(wire::encode(out.message));
  }
  for (const auto& out : leader_->take_coordinator_messages()) {
    if (out.peer == kPeer && !coordinator_cut_) to_coordinator_.push_back(wire::encode(out.message));
  }
}

void LoopbackCluster::deliver_to(Rank& rank, const wire::Message& message) {
  // What the daemon's socket loop does for its rank.
  if (std::holds_alternative<wire::Heartbeat>(message)) return;
  if (const auto* refused = std::get_if<wire::Failed>(&message)) throw std::runtime_error(to_string(refused->error));
  if (const auto* leave = std::get_if<wire::Leave>(&message)) {
    rank.worker->abort(leave->reason);
    rank.formed = false;
  }
  if (const auto* form = std::get_if<wire::Form>(&message)) {
    rank.formed = true;
    if (std::exchange(rank.formed_epoch, form->epoch) == form->epoch) return;
  }
  if (const auto* load = std::get_if<wire::Load>(&message)) {
    if (std::exchange(rank.loaded_epoch, load->epoch) == load->epoch) return;
  }
  const auto* step = std::get_if<wire::Step>(&message);
  if (step != nullptr && &rank == ranks_.data()) {
    steps_.push_back(*step);
    const std::scoped_lock lock(mutex_);
    running_step_ = step->step;
  }
  if (!rank.worker->post(message)) throw std::runtime_error("too many commands wait");
}

void LoopbackCluster::run_commands() {
  // One command of each rank at a time, so that it is known which step runs.
  bool any = true;
  std::vector<size_t> left;
  for (auto& rank : ranks_) {
    if (rank.cut) rank.to_rank.clear();
    left.push_back(arrivals(rank.to_rank));
  }
  while (any) {
    any = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (left[rank] == 0) continue;
      --left[rank];
      any = true;
      const auto message = through_the_wire(ranks_[rank].to_rank.front());
      ranks_[rank].to_rank.pop_front();
      deliver_to(ranks_[rank], message);
    }
    if (any && !options_.jitter) wait_for_ranks();
  }
}

void LoopbackCluster::wait_for_ranks() {
  const auto idle = [this] {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.cut || r.worker->idle(); });
  };
  // A rank whose peer lacks a command, or is cut off, waits for it: nobody can wait for that here.
  const bool may_hang =
      options_.jitter || std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.cut; });
  const auto until = std::chrono::steady_clock::now() + (may_hang ? std::chrono::milliseconds(2) : kLongestStep);
  while (!idle()) {
    if (std::chrono::steady_clock::now() > until) {
      if (may_hang) return;
      throw std::runtime_error("a rank does not come to an end");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void LoopbackCluster::take_answers() {
  std::vector<std::pair<size_t, wire::Message>> answers;
  {
    const std::scoped_lock lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [rank, answer] : answers) {
    if (std::holds_alternative<wire::Failed>(answer)) ranks_[rank].formed = false;
    ranks_[rank].to_leader.push_back(wire::encode(answer));
  }
}

void LoopbackCluster::pump_ranks() {
  run_commands();
  wait_for_ranks();
  take_answers();
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    Rank& self = ranks_[rank];
    if (clock_.now_ns() - self.last_said_ns < limits::kHeartbeatNs) continue;
    self.last_said_ns = clock_.now_ns();
    const auto news = self.formed ? wire::Message(wire::Heartbeat{self.join.incarnation}) : wire::Message(self.join);
    self.to_leader.push_back(wire::encode(news));
  }
}

void LoopbackCluster::pump() {
  pump_coordinator();
  pump_leader();
  pump_ranks();
}

void LoopbackCluster::pump_until(const std::function<bool()>& done, int most_rounds) {
  for (int round = 0; round < most_rounds; ++round) {
    if (done()) return;
    pump();
  }
  throw std::runtime_error(fmt::format("not done after {} rounds", most_rounds));
}

void LoopbackCluster::pump_until_idle() {
  pump_until([this] {
    const auto* scheduler = leader_->scheduler();
    const bool quiet = scheduler == nullptr ||
                       (scheduler->plans_in_flight() == 0 && scheduler->running() == 0 && scheduler->waiting() == 0);
    return core_->open_requests() == 0 && quiet && to_leader_.empty() && to_coordinator_.empty();
  });
}

void LoopbackCluster::advance(int64_t ns) {
  while (ns > 0) {
    const int64_t part = std::min(ns, limits::kHeartbeatNs);
    clock_.advance(part);
    ns -= part;
    pump();
  }
}

std::vector<float> LoopbackCluster::logits(int32_t slot, uint32_t position) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    int32_t row = 0;
    for (const auto& run : step->runs) {
      const auto rows = std::max<uint32_t>(1, static_cast<uint32_t>(run.tokens.size()));
      if (run.sequence_slot == slot && position >= run.position && position < run.position + rows) {
        const auto found = logits_.find({step->step, row + static_cast<int32_t>(position - run.position)});
        if (found != logits_.end()) return found->second;
      }
      row += static_cast<int32_t>(rows);
    }
  }
  throw std::runtime_error(fmt::format("no logits of slot {} at position {}", slot, position));
}

shard::WholeState LoopbackCluster::state(int32_t slot) const {
  std::vector<const shard::Engine*> engines;
  for (const auto& rank : ranks_)
    engines.push_back(rank.engine);
  return whole_state(engines, slot, 0);  // the demo model has no keys and values
}

requests::GenerationSpec one_sequence(std::vector<int32_t> tokens, uint32_t max_tokens) {
  requests::GenerationSpec spec;
  spec.prompts.push_back({std::move(tokens)});
  spec.shared.max_tokens = max_tokens;
  spec.shared.sampling.temperature = 0;
  return spec;
}

}  // namespace krait::test
