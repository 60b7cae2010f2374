// What the leader says of its group.
#include <string>
#include <utility>

#include "shard_server/service/leader.h"

namespace krait::shard {

void Leader::tell_all_coordinators() {
  const auto now = status();
  last_status_ns_ = clock_.now_ns();
  told_load_ = {now.running, now.waiting};
  for (const auto& [peer, coordinator] : coordinators_)
    to_coordinators_.push_back({peer, now});
}

void Leader::set_state(wire::GroupState state, std::string detail) {
  state_ = state;
  detail_ = std::move(detail);
  tell_all_coordinators();
}

std::string Leader::missing_ranks() const {
  std::string missing;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].join) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  return missing.empty() ? missing : "waiting for rank " + missing;
}

wire::Status Leader::status() const {
  wire::Status status;
  status.incarnation = options_.incarnation;
  status.epoch = epoch_;
  status.state = state_;
  status.model = options_.model;
  status.fingerprint = options_.self.fingerprint;
  status.max_queue = options_.max_queue;
  status.detail = detail_;
  if (state_ == wire::GroupState::kWaiting) {
    const std::string missing = missing_ranks();
    status.detail += detail_.empty() || missing.empty() ? missing : "; " + missing;
  }
  if (scheduler_ != nullptr) {
    status.numerics_id = ranks_[0].ready->numerics_id;
    status.slots = scheduler_->running() + scheduler_->free_slots();
    status.running = scheduler_->running();
    status.waiting = scheduler_->waiting();
    status.tokens_per_second = scheduler_->tokens_per_second();
    status.backlog_seconds = scheduler_->backlog_seconds();
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& known = ranks_[rank];
    const wire::Join join = known.join.value_or(wire::Join{});
    status.ranks.push_back({rank, join.pid, known.join.has_value(), known.ready.has_value(), join.metrics_port});
  }
  return status;
}

}  // namespace krait::shard
