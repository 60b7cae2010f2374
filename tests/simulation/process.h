// A simulated process: it is given turns as a daemon's loop would take them, may be paused like by SIGSTOP, and ends by
// itself or is killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/metrics/registry.h"
#include "coordinator/requests/core_loop.h"
#include "shard_server/service/shard_loop.h"
#include "shard_server/service/shard_metrics.h"
#include "tests/simulation/leader_watch.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_runner.h"

namespace krait::simulation {

class Process {
 public:
  Process(std::string name, EventQueue& events, Record& record)
      : name_(std::move(name)), events_(events), record_(record) {}
  virtual ~Process() = default;

  const std::string& name() const { return name_; }
  bool paused() const { return paused_; }
  virtual void set_paused(bool paused);
  /// There is something to do: a turn comes within microseconds.
  void wake() { turn_at(events_.now_ns() + kWakeNs); }
  /// It has ended by itself.
  bool ended() const { return ended_; }

 protected:
  /// False when that was the last one.
  virtual bool turn() = 0;

  const std::string name_;
  EventQueue& events_;
  Record& record_;

 private:
  static constexpr int64_t kWakeNs = 20 * kUs;
  void turn_at(int64_t time_ns);

  bool paused_ = false;
  bool ended_ = false;
  int64_t next_turn_ns_ = -1;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

/// A rank of a group, with its loop and its runner.
class ShardProcess final : public Process {
 public:
  ShardProcess(std::string name, shard::LoopOptions options, RankShape shape, uint64_t seed, EventQueue& events,
               Network& network, Meetings& meetings, Record& record);

  void set_paused(bool paused) override;
  /// SIGTERM.
  void stop();
  void fail_next_load() { runner_.fail_next_load(); }
  /// Nothing runs or waits here.
  bool quiet() const;
  void check_quiet() { watch_.check_quiet(); }
  /// Rank 0's, else null.
  const shard::Leader* leader() const { return loop_->leader(); }

 protected:
  bool turn() override;

 private:
  void check_leader();

  const RankShape shape_;
  const uint32_t max_queue_;
  int stop_requests_ = 0;
  LeaderWatch watch_;
  WatchedTransport transport_;
  metrics::Registry registry_{metrics::Process::kShard};
  shard::ShardMetrics metrics_{registry_};
  std::vector<wire::Message> answers_;
  SimulatedRunner runner_;
  std::unique_ptr<shard::ShardLoop> loop_;
};

/// A coordinator's core, with its loop.
class CoordinatorProcess final : public Process {
 public:
  CoordinatorProcess(std::string name, requests::CoreOptions options, EventQueue& events, Network& network,
                     Record& record);

  requests::RequestCore& core() { return loop_.core(); }
  const requests::RequestCore& core() const { return loop_.core(); }

 protected:
  bool turn() override;

 private:
  std::unique_ptr<transport::Transport> transport_;
  requests::CoreLoop loop_;
};

}  // namespace krait::simulation
