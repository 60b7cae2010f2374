#include "shard_server/service/leader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"

namespace krait::shard {

Leader::Leader(LeaderOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), ranks_(options_.world) {
  CHECK_GE(options_.world, 1u);
  last_heartbeat_ns_ = clock_.now_ns();
}

void Leader::from_rank(uint32_t rank, wire::Message message) {
  if (rank >= ranks_.size()) {
    const auto* join = std::get_if<wire::Join>(&message);
    if (join != nullptr)
      turn_away(rank, fmt::format("rank {} of {} has no place in a group of {}", rank, join->world, options_.world));
    return;
  }
  // By the age of its last word, however much it says from now on: it may be this leader that did not run, and then the
  // others have left.
  if (is_silent(ranks_[rank])) lose_rank(rank, "was silent for too long");
  ranks_[rank].last_heard_ns = clock_.now_ns();
  if (auto* join = std::get_if<wire::Join>(&message)) {
    on_join(rank, std::move(*join));
  } else if (auto* ready = std::get_if<wire::Ready>(&message); ready != nullptr && ranks_[rank].join) {
    on_ready(rank, std::move(*ready));
  } else if (auto* done = std::get_if<wire::StepDone>(&message)) {
    on_step_done(rank, std::move(*done));
  } else if ((ready != nullptr || std::holds_alternative<wire::Heartbeat>(message)) && !ranks_[rank].join) {
    // It thinks that it is in a group, of this leader's earlier self: only a rank that has left says Join again.
    to_ranks_.push_back({rank, wire::Leave{0, "the leader does not know this rank"}});
  } else if (std::holds_alternative<wire::Drain>(message)) {
    on_leaving(rank);
  } else if (const auto* failed = std::get_if<wire::Failed>(&message)) {
    // An old epoch's failure is old news.
    if (epoch_ != 0 && failed->epoch == epoch_)
      give_up(fmt::format("rank {} failed: {}", rank, to_string(failed->error)));
  }
}

void Leader::on_leaving(uint32_t rank) {
  if (draining_ || leaving_ || state_ == wire::GroupState::kWaiting) return;  // it ends anyway, or nothing has begun
  if (scheduler_ == nullptr) {
    // Loaded, the group would take requests that this rank soon leaves.
    give_up(fmt::format("rank {} is shutting down", rank));
    return;
  }
  leaving_ = fmt::format("rank {} is shutting down", rank);
  scheduler_->drain();
  set_state(wire::GroupState::kDraining, *leaving_);
}

void Leader::on_step_done(uint32_t rank, wire::StepDone done) {
  if (scheduler_ == nullptr || done.epoch != epoch_) return;
  done.rank = rank;
  // A rank answers in order: the first step that it has not answered is the one that is due.
  const auto due = std::find_if(steps_.begin(), steps_.end(), [&](const auto& entry) {
    const auto& dones = entry.second.dones;
    return std::none_of(dones.begin(), dones.end(), [&](const auto& other) { return other.rank == rank; });
  });
  if (due == steps_.end() || due->first != done.step) {
    give_up(fmt::format("rank {} answered step {}, which was not asked of it next", rank, done.step));
    return;
  }
  due->second.dones.push_back(std::move(done));
  settle_steps();
}

void Leader::settle_steps() {
  // Steps end in order: every rank runs them so, and tokens leave only after all ranks agree.
  while (!steps_.empty() && steps_.begin()->second.dones.size() == ranks_.size()) {
    auto dones = std::move(steps_.begin()->second.dones);
    steps_.erase(steps_.begin());
    if (!steps_.empty()) steps_.begin()->second.begun_ns = clock_.now_ns();
    std::sort(dones.begin(), dones.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    for (const auto& done : dones) {
      if (done.digest == dones[0].digest) continue;
      ++stats_.digest_mismatches;
      give_up(fmt::format("rank {} disagrees with rank 0 about step {}", done.rank, done.step));
      return;
    }
    if (const auto taken = scheduler_->step_done(scheduler_->merge(std::move(dones))); !taken.ok()) {
      give_up(to_string(taken.error()));
      return;
    }
  }
  pump();
}

void Leader::pump() {
  if (scheduler_ == nullptr) return;
  while (auto step = scheduler_->plan()) {
    step->epoch = epoch_;
    steps_[step->step] = {step->deadline_ms, clock_.now_ns(), {}};
    tell_all_ranks(*std::move(step));
  }
}

void Leader::look_for_lost_messages() {
  // A connection that is cut takes what is on its way with it, and comes back within one heartbeat's time: nobody falls
  // silent. So what nothing else would follow is said again, and a step that nobody answers is not waited for.
  if (state_ == wire::GroupState::kLoading) {
    for (uint32_t rank = 1; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].ready) continue;
      to_ranks_.push_back({rank, form_});
      to_ranks_.push_back({rank, wire::Load{epoch_, options_.slots}});
    }
  }
  if (steps_.empty() || ranks_.size() == 1) return;
  // The ranks' own deadline comes first where it is one of them that another waits for.
  const auto& [number, step] = *steps_.begin();
  if (clock_.now_ns() - step.begun_ns > step.deadline_ms * kMs + limits::kPeerTimeoutNs)
    give_up(fmt::format("step {} was not answered in time", number));
}

void Leader::say_hello(const std::string& peer, uint64_t incarnation) {
  auto& coordinator = coordinators_[peer];
  if (coordinator.incarnation != 0 && coordinator.incarnation != incarnation) {
    // Another process under the same name. What was on its way to the old one would be misread by the new one, which
    // counts its requests from the start.
    if (scheduler_ != nullptr) scheduler_->drop_peer(peer);
    std::erase_if(to_coordinators_, [&](const auto& out) { return out.peer == peer; });
  }
  coordinator.incarnation = incarnation;
}

void Leader::from_coordinator(const std::string& peer, wire::Message message) {
  if (!coordinators_.contains(peer) && coordinators_.size() >= static_cast<size_t>(limits::kMaxCoordinators)) {
    log_debug("coordinator {} is one too many", peer);
    return;
  }
  coordinators_[peer].last_heard_ns = clock_.now_ns();
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    say_hello(peer, hello->incarnation);
    to_coordinators_.push_back({peer, status()});
  } else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&message)) {
    say_hello(peer, heartbeat->incarnation);
  } else if (auto* submit = std::get_if<wire::Submit>(&message)) {
    if (scheduler_ != nullptr) {
      scheduler_->submit(peer, std::move(*submit));
    } else {
      to_coordinators_.push_back(
          {peer, wire::Rejected{submit->request,
                                Error{Errc::kUnavailable, "the group is not serving: " + status().detail, ""}, 1}});
    }
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message)) {
    if (scheduler_ != nullptr) scheduler_->cancel(peer, *cancel);
  } else if (std::holds_alternative<wire::Drain>(message)) {
    drain();
  }
  pump();
}

void Leader::give_up(const std::string& why) {
  log_error("group {} is given up: {}", options_.group, why);
  ++stats_.groups_lost;
  abort_ = lost_by_ = why;
  leaving_.reset();
  form_after_ns_ = clock_.now_ns() + limits::kReformDelayNs;
  end_group(why);
  // A group that drains has no need to form again.
  set_state(draining_ ? wire::GroupState::kDraining : wire::GroupState::kWaiting, why);
}

void Leader::end_group(const std::string& why) {
  if (scheduler_ != nullptr) {
    scheduler_->fail_all(Error{Errc::kUnavailable, why, ""});
    auto last = scheduler_->take_outgoing();
    std::move(last.begin(), last.end(), std::back_inserter(to_coordinators_));
    scheduler_.reset();
  }
  steps_.clear();
  tell_all_ranks(wire::Leave{epoch_, why});
  epoch_ = 0;
  for (Rank& rank : ranks_)
    rank = {};
}

void Leader::drain() {
  draining_ = true;
  if (scheduler_ != nullptr) scheduler_->drain();
  set_state(wire::GroupState::kDraining, "shutting down");
}

bool Leader::drained() const {
  return state_ == wire::GroupState::kDraining && (scheduler_ == nullptr || scheduler_->drained());
}

void Leader::leave() {
  draining_ = true;
  end_group("the group is shutting down");
  set_state(wire::GroupState::kDraining, "shutting down");
}

bool Leader::is_silent(const Rank& rank) const {
  return rank.join && clock_.now_ns() - rank.last_heard_ns > limits::kPeerTimeoutNs;
}

void Leader::lose_rank(uint32_t rank, const std::string& how) {
  if (rank >= ranks_.size() || !ranks_[rank].join) return;
  if (epoch_ != 0) {
    give_up(fmt::format("rank {} {}", rank, how));
    return;
  }
  log_warning("rank {} {}: its place is free again", rank, how);
  ranks_[rank] = {};
}

void Leader::drop_silent_ranks() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_silent(ranks_[rank])) lose_rank(rank, "is silent");
  }
}

void Leader::drop_silent_coordinators(int64_t now_ns) {
  std::erase_if(coordinators_, [&](const auto& entry) {
    const bool gone = now_ns - entry.second.last_heard_ns > limits::kPeerTimeoutNs;
    if (gone && scheduler_ != nullptr) {
      scheduler_->fail_peer(entry.first, Error{Errc::kUnavailable, "the coordinator was silent for too long", ""});
    }
    return gone;
  });
}

void Leader::tick() {
  const int64_t now_ns = clock_.now_ns();
  drop_silent_ranks();
  drop_silent_coordinators(now_ns);
  form_if_complete();
  if (scheduler_ != nullptr) {
    scheduler_->expire();
    pump();
    if (leaving_ && scheduler_->drained()) {
      give_up(std::string(*leaving_));
      return;
    }
    const bool news = told_load_ != std::pair(scheduler_->running(), scheduler_->waiting());
    if (news && now_ns - last_status_ns_ >= limits::kStatusNs) tell_all_coordinators();
  }
  if (now_ns - last_heartbeat_ns_ < limits::kHeartbeatNs) return;
  last_heartbeat_ns_ = now_ns;
  look_for_lost_messages();
  tell_all_ranks(wire::Heartbeat{options_.incarnation});
  tell_all_coordinators();
}

void Leader::tell_all_ranks(const wire::Message& message) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    to_ranks_.push_back({rank, message});
}

std::vector<ToRank> Leader::take_rank_messages() {
  return std::exchange(to_ranks_, {});
}

std::vector<scheduler::Outgoing> Leader::take_coordinator_messages() {
  if (scheduler_ != nullptr) {
    auto news = scheduler_->take_outgoing();
    std::move(news.begin(), news.end(), std::back_inserter(to_coordinators_));
  }
  return std::exchange(to_coordinators_, {});
}

std::optional<std::string> Leader::take_abort() {
  return std::exchange(abort_, std::nullopt);
}

}  // namespace krait::shard
