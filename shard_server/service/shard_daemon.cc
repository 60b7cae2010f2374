#include "shard_server/service/shard_daemon.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/base/rng.h"
#include "common/base/version.h"
#include "common/transport/zmq_transport.h"
#include "common/wire/addresses.h"
#include "common/wire/codec.h"
#include "kernels/device/cpu_path.h"
#include "shard_server/collectives/registry.h"

namespace krait::shard {
namespace {

/// Of a rank's part of the memory that is free before loading, less its weights, what states may take.
constexpr double kStateShare = 0.4;

/// What the rank's tensors will take, but for the embedding, which stays in the file.
Result<int64_t> weight_bytes(const ModelPlan& plan, const RankOptions& rank) {
  ASSIGN_OR_RETURN(const auto partition, make_partition(plan.config, rank.world));
  int64_t elements = 0;
  for (const BlockPlan& block : plan.blocks) {
    if (block.kind == BlockKind::kEmbedding) continue;
    for (const TensorSpec& spec : block.tensors) {
      int64_t count = 1;
      for (const int64_t extent : local_shape(spec, partition, rank.rank))
        count *= extent;
      elements += count;
    }
  }
  return elements * dtype_bytes(rank.dtype);
}

/// Whether a rank that fails so would fail again: for want of something on its machine or in its files, not of a peer.
bool is_own_fault(Errc code) {
  return code == Errc::kResourceExhausted || code == Errc::kCorrupt || code == Errc::kUnsupported ||
         code == Errc::kInvalidArgument || code == Errc::kIo || code == Errc::kNotFound;
}

/// Group names become names of sockets and segments.
Status check_group_name(const std::string& name) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  if (!name.empty() && std::cmp_less_equal(name.size(), limits::kMaxGroupNameBytes) &&
      std::all_of(name.begin(), name.end(), allowed))
    return {};
  return Error{Errc::kInvalidArgument,
               fmt::format("a group's name is 1 to {} letters, digits, '-' and '_'", limits::kMaxGroupNameBytes),
               "group"};
}

}  // namespace

Result<std::unique_ptr<ShardDaemon>> ShardDaemon::start(ShardOptions options, const Clock& clock) {
  std::unique_ptr<ShardDaemon> daemon(new ShardDaemon(std::move(options), clock));
  RETURN_IF_ERROR(daemon->open());
  return daemon;
}

ShardDaemon::~ShardDaemon() = default;

Status ShardDaemon::open() {
  if (options_.rank >= options_.world) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("rank {} does not exist among {} ranks", options_.rank, options_.world), "rank"};
  }
  RETURN_IF_ERROR(check_group_name(options_.group));
  ASSIGN_OR_RETURN(checkpoint_, Checkpoint::open(options_.model_dir));
  ASSIGN_OR_RETURN(plan_, make_model_plan(checkpoint_->config()));
  RETURN_IF_ERROR(checkpoint_->check(plan_));
  for (const auto& field : checkpoint_->config().unknown_fields) {
    log_info("config.json: nobody here knows the field '{}'", field);
  }
  model_name_ = options_.served_model_name;
  if (model_name_.empty()) model_name_ = model_name_of(options_.model_dir);
  incarnation_ = random_u64();
  join_.incarnation = incarnation_;
  join_.rank = static_cast<uint32_t>(options_.rank);
  join_.world = static_cast<uint32_t>(options_.world);
  join_.version = version();
  join_.fingerprint = checkpoint_->fingerprint();
  join_.dtype = options_.dtype;
  join_.path = kernels::cpu_path_name(kernels::best_cpu_path());
  join_.pid = getpid();
  registry_ = std::make_unique<metrics::Registry>(metrics::Process::kShard);
  shard_metrics_ = std::make_unique<ShardMetrics>(*registry_);

  ASSIGN_OR_RETURN(transport_, transport::make_zmq_transport());
  const std::string ranks = wire::ranks_address(options_.run_dir, options_.group);
  if (options_.rank == 0) {
    ASSIGN_OR_RETURN(ranks_endpoint_, transport_->bind(ranks));
    ASSIGN_OR_RETURN(coordinators_endpoint_, transport_->bind(wire::leader_address(options_.run_dir, options_.group)));
  } else {
    ASSIGN_OR_RETURN(ranks_endpoint_, transport_->connect(ranks, peer_name({join_.rank, incarnation_})));
  }
  ASSIGN_OR_RETURN(const auto communicator, collectives::find_collective(options_.collectives));
  RankOptions rank;
  rank.rank = static_cast<int>(options_.rank);
  rank.world = static_cast<int>(options_.world);
  rank.dtype = options_.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  rank.threads = static_cast<int>(options_.threads);
  const int64_t host_ranks = std::max(options_.host_ranks, options_.world);
  rank.may_spin = host_ranks * options_.threads + 1 <= allowed_cores();
  rank.slots = static_cast<uint32_t>(options_.slots);
  ASSIGN_OR_RETURN(const int64_t weights, weight_bytes(plan_, rank));
  const int64_t left = std::max<int64_t>(0, available_memory_bytes() / host_ranks - weights);
  rank.state_memory_bytes = static_cast<int64_t>(static_cast<double>(left) * kStateShare);
  rank.communicator = communicator;
  worker_ = std::make_unique<RankWorker>(std::make_unique<RankExecutor>(rank, checkpoint_, plan_, clock_),
                                         [this](wire::Message answer) {
                                           {
                                             const std::scoped_lock lock(mutex_);
                                             answers_.push_back(std::move(answer));
                                           }
                                           transport_->wake();
                                         });
  return {};
}

std::vector<wire::Message> ShardDaemon::take_answers() {
  std::vector<wire::Message> answers;
  {
    const std::scoped_lock lock(mutex_);
    answers = std::exchange(answers_, {});
  }
  for (const auto& answer : answers) {
    if (std::holds_alternative<wire::Ready>(answer)) was_ready_ = true;
    const auto* failed = std::get_if<wire::Failed>(&answer);
    if (failed != nullptr && !was_ready_ && is_own_fault(failed->error.code)) cannot_start_ = failed->error;
  }
  return answers;
}

Status ShardDaemon::run(const std::atomic<int>& stop_requests) {
  return options_.rank == 0 ? run_leader(stop_requests) : run_rank(stop_requests);
}

void ShardDaemon::take_for_leader(Leader& leader, const transport::Packet& packet) {
  auto message = wire::decode(packet.bytes);
  if (!message.ok()) {
    log_warning("a message of {} was dropped: {}", packet.peer, to_string(message.error()));
  } else if (packet.endpoint == coordinators_endpoint_) {
    leader.from_coordinator(packet.peer, *std::move(message));
  } else if (const auto peer = rank_of_peer(packet.peer); peer && peer->rank > 0) {
    take_from_rank(leader, *peer, *std::move(message));
  } else {
    log_warning("a message of '{}', which is no rank of this group, was dropped", packet.peer);
  }
}

void ShardDaemon::take_from_rank(Leader& leader, const RankPeer& peer, wire::Message message) {
  switch (places_.heard(peer)) {
    case RankPlaces::Verdict::kHolds:
      leader.from_rank(peer.rank, std::move(message));
      return;
    case RankPlaces::Verdict::kWaits:
      return;
    case RankPlaces::Verdict::kRefused:
      const auto pid = leader.status().ranks.size() > peer.rank ? leader.status().ranks[peer.rank].pid : 0;
      const auto why = fmt::format("another process is rank {} of group {} (pid {})", peer.rank, options_.group, pid);
      log_error("a second rank {} is turned away: {}", peer.rank, why);
      const wire::Message refusal = wire::Failed{0, 0, Error{Errc::kProtocol, why, "rank"}};
      if (const auto sent = transport_->send(ranks_endpoint_, peer_name(peer), wire::encode(refusal)); !sent.ok())
        log_debug("a second rank {} could not be told: {}", peer.rank, to_string(sent.error()));
  }
}

void ShardDaemon::send_to_rank(Leader& leader, uint32_t rank, const wire::Message& message) {
  const auto holder = places_.holder(rank);
  if (!holder) return;  // nobody has said that he is this rank
  const auto sent = transport_->send(ranks_endpoint_, peer_name(*holder), wire::encode(message));
  if (sent.ok()) return;
  // Its connection is gone, or takes no more: what it is told from now on it cannot follow.
  log_warning("rank {} could not be told: {}", rank, to_string(sent.error()));
  places_.lost(rank);
  leader.lose_rank(rank, "cannot be reached");
}

void ShardDaemon::deliver_from_leader(Leader& leader) {
  if (const auto reason = leader.take_abort()) worker_->abort(*reason);
  for (auto& out : leader.take_rank_messages()) {
    if (out.rank != 0) {
      send_to_rank(leader, out.rank, out.message);
      continue;
    }
    if (std::holds_alternative<wire::Heartbeat>(out.message)) continue;
    if (const auto* step = std::get_if<wire::Step>(&out.message)) shard_metrics_->observe_step(*step);
    if (!worker_->post(std::move(out.message))) {
      leader.from_rank(0,
                       wire::Failed{leader.status().epoch, 0, Error{Errc::kOverloaded, "too many commands wait", ""}});
    }
  }
  for (auto& out : leader.take_coordinator_messages()) {
    const auto sent = transport_->send(coordinators_endpoint_, out.peer, wire::encode(out.message));
    if (!sent.ok()) log_debug("coordinator {} could not be told: {}", out.peer, to_string(sent.error()));
  }
}

Status ShardDaemon::run_leader(const std::atomic<int>& stop_requests) {
  LeaderOptions options;
  options.group = fmt::format("krait-{}-{}", options_.group, getpid());
  options.model = model_name_;
  options.world = join_.world;
  options.self = join_;
  options.slots = static_cast<uint32_t>(options_.slots);
  options.max_queue = static_cast<uint32_t>(options_.max_queue);
  options.max_step_ms = options_.max_step_ms;
  options.vocab_size = checkpoint_->config().vocab_size;
  options.incarnation = incarnation_;
  options.new_epoch = random_u64;
  Leader leader(options, clock_);
  Reminder reminder;
  int64_t drain_deadline_ns = 0;
  int64_t next_metrics_ns = 0;
  while (true) {
    transport_->wait(limits::kCoreTickNs);
    // This thread is alive, and so is the rank that it speaks for, which says what the other ranks say.
    const bool waiting = leader.state() == wire::GroupState::kWaiting;
    leader.from_rank(0, waiting ? wire::Message(join_) : wire::Heartbeat{incarnation_});
    for (auto& answer : take_answers()) {
      if (const auto* done = std::get_if<wire::StepDone>(&answer)) shard_metrics_->observe_done(*done);
      leader.from_rank(0, std::move(answer));
    }
    for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
      const auto packet = transport_->receive();
      if (!packet) break;
      take_for_leader(leader, *packet);
    }
    leader.tick();
    const int64_t now_ns = clock_.now_ns();
    if (reminder.due(leader.state() == wire::GroupState::kWaiting, now_ns)) {
      log_warning("group {} has waited for {} s: {}; ranks are awaited at {}", options_.group, reminder.seconds(now_ns),
                  leader.status().detail, wire::ranks_address(options_.run_dir, options_.group));
    }
    if (stop_requests > 0 && drain_deadline_ns == 0) {
      log_info("draining");
      drain_deadline_ns = now_ns + static_cast<int64_t>(options_.drain_seconds * 1e9);
      leader.drain();
    }
    const bool ends = drain_deadline_ns != 0 && (leader.drained() || stop_requests > 1 || now_ns >= drain_deadline_ns);
    if (ends || cannot_start_) leader.leave();
    deliver_from_leader(leader);
    if (cannot_start_) return *cannot_start_;
    if (ends) return {};
    if (now_ns >= next_metrics_ns) {
      next_metrics_ns = now_ns + limits::kCoreTickNs;
      shard_metrics_->observe_leader(leader);
      shard_metrics_->observe_figures(worker_->figures(), join_.version, join_.fingerprint);
    }
  }
}

void ShardDaemon::say_to_leader(RankLink& link, const wire::Message& message) {
  const auto sent = transport_->send(ranks_endpoint_, "", wire::encode(message));
  if (!sent.ok()) log_debug("the leader could not be told: {}", to_string(sent.error()));
  link.last_said_ns = clock_.now_ns();
}

Status ShardDaemon::take_for_rank(RankLink& link, const transport::Packet& packet) {
  ASSIGN_OR_RETURN(auto message, wire::decode(packet.bytes));
  link.last_heard_ns = clock_.now_ns();
  if (std::holds_alternative<wire::Heartbeat>(message)) return {};
  if (const auto* refused = std::get_if<wire::Failed>(&message)) return refused->error;
  if (const auto* step = std::get_if<wire::Step>(&message)) shard_metrics_->observe_step(*step);
  if (const auto* leave = std::get_if<wire::Leave>(&message)) {
    log_info("the leader ends this group: {}", leave->reason);
    worker_->abort(leave->reason);
    link.formed = false;
    link.left = true;
  }
  if (std::holds_alternative<wire::Form>(message)) link.formed = true;
  if (!worker_->post(std::move(message))) return Error{Errc::kOverloaded, "too many commands wait", ""};
  return {};
}

void ShardDaemon::watch_leader(RankLink& link) {
  const int64_t now_ns = clock_.now_ns();
  const bool silent = now_ns - link.last_heard_ns > limits::kPeerTimeoutNs;
  if (link.formed && silent) {
    log_error("the leader is silent: leaving the group");
    worker_->abort("the leader is silent");
    worker_->post(wire::Leave{0, "the leader is silent"});
    link.formed = false;
  }
  if (link.reminder.due(silent, now_ns)) {
    log_warning("waiting for the leader (rank 0) of group {} at {}: nothing was heard from there for {} s",
                options_.group, wire::ranks_address(options_.run_dir, options_.group),
                (now_ns - link.last_heard_ns) / kSecond);
  }
}

Status ShardDaemon::run_rank(const std::atomic<int>& stop_requests) {
  RankLink link;
  link.last_heard_ns = clock_.now_ns();
  int64_t drain_deadline_ns = 0;
  while (true) {
    transport_->wait(limits::kCoreTickNs);
    for (auto& answer : take_answers()) {
      if (const auto* done = std::get_if<wire::StepDone>(&answer)) shard_metrics_->observe_done(*done);
      if (std::holds_alternative<wire::Failed>(answer)) link.formed = false;
      say_to_leader(link, answer);
    }
    if (cannot_start_) return *cannot_start_;
    for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
      const auto packet = transport_->receive();
      if (!packet) break;
      RETURN_IF_ERROR(take_for_rank(link, *packet));
      if (stop_requests > 0 && link.left) return {};
    }
    watch_leader(link);
    const int64_t now_ns = clock_.now_ns();
    if (stop_requests > 0 && drain_deadline_ns == 0) {
      // The leader drains, and says Leave when everything that is open has ended.
      if (link.formed) say_to_leader(link, wire::Drain{});
      drain_deadline_ns = now_ns + static_cast<int64_t>(options_.drain_seconds * 1e9);
    }
    if (stop_requests > 1 || (stop_requests > 0 && (!link.formed || now_ns >= drain_deadline_ns))) {
      // The others need not wait until this rank's silence tells them.
      if (link.formed) say_to_leader(link, join_);
      return {};
    }
    if (now_ns - link.last_said_ns >= limits::kHeartbeatNs) {
      say_to_leader(link, link.formed ? wire::Message(wire::Heartbeat{incarnation_}) : wire::Message(join_));
      shard_metrics_->observe_figures(worker_->figures(), join_.version, join_.fingerprint);
    }
  }
}

}  // namespace krait::shard
