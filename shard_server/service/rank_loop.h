// The loop of a rank that does not lead: between its leader and its runner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/reminder.h"
#include "shard_server/service/shard_loop.h"

namespace krait::shard {

class RankLoop final : public ShardLoop {
 public:
  RankLoop(LoopOptions options, const LoopTools& tools)
      : options_(std::move(options)), tools_(tools), last_heard_ns_(tools.clock.now_ns()) {}

  std::optional<Status> turn(int stop_requests, std::vector<wire::Message> answers) override;

 private:
  Status take(const transport::Packet& packet);
  bool is_no_news(const wire::Message& message);
  void take_answer(wire::Message answer);
  void say(const wire::Message& message);
  void leave_group();
  void watch_leader();
  wire::Message sign_of_life() const;

  const LoopOptions options_;
  const LoopTools tools_;
  bool formed_ = false;
  uint64_t formed_epoch_ = 0;         // of the latest Form
  uint64_t loaded_epoch_ = 0;         // of the latest Load
  std::optional<wire::Ready> ready_;  // said until a step shows that the leader has heard it
  int64_t last_heard_ns_ = 0;
  int64_t last_said_ns_ = 0;
  int64_t drain_deadline_ns_ = 0;
  int64_t next_metrics_ns_ = 0;
  Reminder reminder_;
};

}  // namespace krait::shard
