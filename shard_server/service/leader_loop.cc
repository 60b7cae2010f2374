#include "shard_server/service/leader_loop.h"

#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/wire/addresses.h"
#include "common/wire/codec.h"

namespace krait::shard {

LeaderLoop::LeaderLoop(LoopOptions options, const LoopTools& tools)
    : options_(std::move(options)), tools_(tools), leader_(options_.leader, tools.clock), places_(tools.clock) {}

void LeaderLoop::take(const transport::Packet& packet) {
  auto message = wire::decode(packet.bytes);
  if (!message.ok()) {
    tools_.metrics.observe_bad_message();
    if (!bad_messages_.due(tools_.clock.now_ns())) return;
    log_warning("{} message(s) could not be read, the last one of {} for: {}", bad_messages_.times(), packet.peer,
                to_string(message.error()));
  } else if (packet.endpoint == tools_.endpoints.coordinators) {
    leader_.from_coordinator(packet.peer, *std::move(message));
  } else if (const auto peer = rank_of_peer(packet.peer); peer && peer->rank > 0) {
    take_from_rank(*peer, *std::move(message));
  } else {
    log_warning("a message of '{}', which is no rank of this group, was dropped", packet.peer);
  }
}

void LeaderLoop::take_from_rank(const RankPeer& peer, wire::Message message) {
  switch (places_.heard(peer)) {
    case RankPlaces::Verdict::kHolds:
      leader_.from_rank(peer.rank, std::move(message));
      return;
    case RankPlaces::Verdict::kWaits:
      return;
    case RankPlaces::Verdict::kRefused:
      const auto pid = leader_.status().ranks.size() > peer.rank ? leader_.status().ranks[peer.rank].pid : 0;
      const auto why = fmt::format("another process is rank {} of group {} (pid {})", peer.rank, options_.group, pid);
      log_error("a second rank {} is turned away: {}", peer.rank, why);
      const wire::Message refusal = wire::Failed{0, 0, Error{Errc::kProtocol, why, "rank"}};
      const auto sent = tools_.transport.send(tools_.endpoints.ranks, peer_name(peer), wire::encode(refusal));
      if (!sent.ok()) log_debug("a second rank {} could not be told: {}", peer.rank, to_string(sent.error()));
  }
}

void LeaderLoop::send_to_rank(uint32_t rank, const wire::Message& message) {
  const auto holder = places_.holder(rank);
  if (!holder) return;  // nobody has said that he is this rank
  const auto sent = tools_.transport.send(tools_.endpoints.ranks, peer_name(*holder), wire::encode(message));
  if (sent.ok()) return;
  // Its connection is gone, or takes no more: what it is told from now on it cannot follow.
  log_warning("rank {} could not be told: {}", rank, to_string(sent.error()));
  places_.lost(rank);
  leader_.lose_rank(rank, "cannot be reached");
}

void LeaderLoop::deliver() {
  if (const auto reason = leader_.take_abort()) tools_.runner.abort(*reason);
  for (auto& out : leader_.take_rank_messages()) {
    if (out.rank != 0) {
      send_to_rank(out.rank, out.message);
      continue;
    }
    if (std::holds_alternative<wire::Heartbeat>(out.message)) continue;
    if (const auto* step = std::get_if<wire::Step>(&out.message)) tools_.metrics.observe_step(*step);
    if (!tools_.runner.post(std::move(out.message))) {
      const Error error{Errc::kOverloaded, "too many commands wait", ""};
      leader_.from_rank(0, wire::Failed{leader_.status().epoch, 0, error});
    }
  }
  for (auto& out : leader_.take_coordinator_messages()) {
    const auto sent = tools_.transport.send(tools_.endpoints.coordinators, out.peer, wire::encode(out.message));
    if (!sent.ok()) log_debug("coordinator {} could not be told: {}", out.peer, to_string(sent.error()));
  }
}

std::optional<Status> LeaderLoop::turn(int stop_requests, std::vector<wire::Message> answers) {
  // This thread is alive, and so is the rank that it speaks for, which says what the other ranks say.
  const bool waiting = leader_.state() == wire::GroupState::kWaiting;
  leader_.from_rank(0,
                    waiting ? wire::Message(options_.join) : wire::Message(wire::Heartbeat{options_.join.incarnation}));
  for (auto& answer : answers) {
    if (const auto* done = std::get_if<wire::StepDone>(&answer)) tools_.metrics.observe_done(*done);
    leader_.from_rank(0, std::move(answer));
  }
  for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
    const auto packet = tools_.transport.receive();
    if (!packet) break;
    take(*packet);
  }
  leader_.tick();
  const int64_t now_ns = tools_.clock.now_ns();
  if (reminder_.due(leader_.state() == wire::GroupState::kWaiting, now_ns)) {
    log_warning("group {} has waited for {} s: {}; ranks are awaited at {}", options_.group, reminder_.seconds(now_ns),
                leader_.status().detail, wire::ranks_address(options_.run_dir, options_.group));
  }
  if (stop_requests > 0 && drain_deadline_ns_ == 0) {
    log_info("draining");
    drain_deadline_ns_ = now_ns + static_cast<int64_t>(options_.drain_seconds * 1e9);
    leader_.drain();
  }
  const bool ends = drain_deadline_ns_ != 0 && (leader_.drained() || stop_requests > 1 || now_ns >= drain_deadline_ns_);
  if (ends) leader_.leave();
  deliver();
  if (ends) return Status();
  if (now_ns >= next_metrics_ns_) {
    next_metrics_ns_ = now_ns + limits::kCoreTickNs;
    tools_.metrics.observe_leader(leader_);
    tools_.metrics.observe_figures(tools_.runner.figures(), options_.join.version, options_.join.fingerprint);
  }
  return std::nullopt;
}

}  // namespace krait::shard
