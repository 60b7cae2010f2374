#include "shard_server/service/rank_loop.h"

#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/wire/addresses.h"
#include "common/wire/codec.h"

namespace krait::shard {

void RankLoop::say(const wire::Message& message) {
  const auto sent = tools_.transport.send(tools_.endpoints.ranks, "", wire::encode(message));
  if (!sent.ok()) log_debug("the leader could not be told: {}", to_string(sent.error()));
  last_said_ns_ = tools_.clock.now_ns();
}

bool RankLoop::is_no_news(const wire::Message& message) {
  // A leader that waits for this rank cannot know what has arrived. A Load that comes before its Form will come again.
  if (const auto* form = std::get_if<wire::Form>(&message))
    return std::exchange(formed_epoch_, form->epoch) == form->epoch;
  const auto* load = std::get_if<wire::Load>(&message);
  if (load == nullptr) return false;
  return load->epoch != formed_epoch_ || std::exchange(loaded_epoch_, load->epoch) == load->epoch;
}

Status RankLoop::take(const transport::Packet& packet) {
  ASSIGN_OR_RETURN(auto message, wire::decode(packet.bytes));
  last_heard_ns_ = tools_.clock.now_ns();
  if (std::holds_alternative<wire::Heartbeat>(message) || is_no_news(message)) return {};
  if (const auto* refused = std::get_if<wire::Failed>(&message)) return refused->error;
  if (const auto* step = std::get_if<wire::Step>(&message)) {
    ready_.reset();
    tools_.metrics.observe_step(*step);
  }
  if (const auto* leave = std::get_if<wire::Leave>(&message)) {
    log_info("the leader ends this group: {}", leave->reason);
    tools_.runner.abort(leave->reason);
    formed_ = false;
    ready_.reset();
  }
  if (std::holds_alternative<wire::Form>(message)) formed_ = true;
  if (!tools_.runner.post(std::move(message))) return Error{Errc::kOverloaded, "too many commands wait", ""};
  return {};
}

void RankLoop::leave_group() {
  formed_ = false;
  ready_.reset();
  // Should the leader ask for the same group again, this rank takes part anew.
  formed_epoch_ = loaded_epoch_ = 0;
}

void RankLoop::watch_leader() {
  const int64_t now_ns = tools_.clock.now_ns();
  const bool silent = now_ns - last_heard_ns_ > limits::kPeerTimeoutNs;
  if (formed_ && silent) {
    log_error("the leader is silent: leaving the group");
    tools_.runner.abort("the leader is silent");
    tools_.runner.post(wire::Leave{0, "the leader is silent"});
    leave_group();
  }
  if (reminder_.due(silent, now_ns)) {
    const std::string address = wire::ranks_address(options_.run_dir, options_.group);
    log_warning("waiting for the leader (rank 0) of group {} at {} for {} s: {}", options_.group, address,
                (now_ns - last_heard_ns_) / kSecond, wire::why_silent(address));
  }
}

void RankLoop::take_answer(wire::Message answer) {
  if (const auto* done = std::get_if<wire::StepDone>(&answer)) tools_.metrics.observe_done(*done);
  if (auto* ready = std::get_if<wire::Ready>(&answer)) ready_ = *ready;
  // A group that was left before it was formed may fail late: that is nothing to the next one.
  if (const auto* failed = std::get_if<wire::Failed>(&answer); failed != nullptr && failed->epoch == formed_epoch_)
    leave_group();
  say(answer);
}

wire::Message RankLoop::sign_of_life() const {
  if (!formed_) return options_.join;
  // Said again and again, like Ready: what is said once can be lost with a connection.
  if (drain_deadline_ns_ != 0) return wire::Drain{};
  if (ready_) return *ready_;
  return wire::Heartbeat{options_.join.incarnation};
}

std::optional<Status> RankLoop::turn(int stop_requests, std::vector<wire::Message> answers) {
  for (auto& answer : answers)
    take_answer(std::move(answer));
  for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
    const auto packet = tools_.transport.receive();
    if (!packet) break;
    if (auto status = take(*packet); !status.ok()) return status;
    if (stop_requests > 0 && !formed_) return Status();
  }
  watch_leader();
  const int64_t now_ns = tools_.clock.now_ns();
  if (stop_requests > 0 && drain_deadline_ns_ == 0) {
    // The leader drains, and says Leave when everything that is open has ended.
    if (formed_) say(wire::Drain{});
    drain_deadline_ns_ = now_ns + static_cast<int64_t>(options_.drain_seconds * 1e9);
  }
  if (stop_requests > 1 || (stop_requests > 0 && (!formed_ || now_ns >= drain_deadline_ns_))) {
    // The others need not wait until this rank's silence tells them.
    if (formed_) say(options_.join);
    return Status();
  }
  if (now_ns - last_said_ns_ >= limits::kHeartbeatNs) say(sign_of_life());
  if (now_ns >= next_metrics_ns_) {
    next_metrics_ns_ = now_ns + limits::kCoreTickNs;
    tools_.metrics.observe_figures(tools_.runner.figures(), options_.join.version, options_.join.fingerprint);
  }
  return std::nullopt;
}

}  // namespace krait::shard
