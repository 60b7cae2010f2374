// Rank 0's loop: the group's leader between its sockets and its own rank's runner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/reminder.h"
#include "shard_server/service/rank_places.h"
#include "shard_server/service/shard_loop.h"

namespace krait::shard {

class LeaderLoop final : public ShardLoop {
 public:
  LeaderLoop(LoopOptions options, const LoopTools& tools);

  std::optional<Status> turn(int stop_requests, std::vector<wire::Message> answers) override;
  const Leader* leader() const override { return &leader_; }

 private:
  void take(const transport::Packet& packet);
  void take_from_rank(const RankPeer& peer, wire::Message message);
  void send_to_rank(uint32_t rank, const wire::Message& message);
  void deliver();

  const LoopOptions options_;
  const LoopTools tools_;
  Leader leader_;
  RankPlaces places_;
  Reminder reminder_;
  Throttle bad_messages_;
  int64_t drain_deadline_ns_ = 0;
  int64_t next_metrics_ns_ = 0;
};

}  // namespace krait::shard
