// Runs a rank's commands in simulated time: the real executor and its queue, with events in place of a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/rng.h"
#include "shard_server/service/rank_worker.h"
#include "tests/simulation/event_queue.h"
#include "tests/simulation/simulated_rank.h"

namespace krait::simulation {

class SimulatedRunner final : public shard::CommandRunner {
 public:
  /// `on_post` sees every command first.
  SimulatedRunner(RankShape shape, uint64_t seed, EventQueue& events, Meetings& meetings,
                  std::function<void(const wire::Message&)> on_post, std::function<void(wire::Message)> answer);

  bool post(wire::Message command) override;
  void abort(const std::string& reason) override { executor_->abort(reason); }
  shard::RankFigures figures() const override { return executor_->figures(); }

  /// While it is paused nothing is executed.
  void set_paused(bool paused);
  void fail_next_load() { rank_->fail_next_load(); }

 private:
  void advance();
  void begin();
  void complete();
  int64_t duration_ns(const wire::Message& command);
  /// Calls `work` after that time unless the process is gone by then.
  void later(int64_t delay_ns, std::function<void()> work);

  SplitMix64 random_;
  EventQueue& events_;
  const std::function<void(const wire::Message&)> on_post_;
  const std::function<void(wire::Message)> answer_;
  std::unique_ptr<shard::RankExecutor> executor_;
  SimulatedRank* rank_ = nullptr;         // the executor's
  std::optional<wire::Message> current_;  // begun and not executed yet
  uint64_t begun_ = 0;
  bool settling_ = false;  // nothing is waited for: it is done after a while
  bool leave_waits_ = false;
  bool paused_ = false;
  bool overdue_ = false;  // it would have been executed, but for the pause
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace krait::simulation
