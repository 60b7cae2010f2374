// One shard server: opens the checkpoint, joins its group, and is the group's leader when its rank is 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/metrics/registry.h"
#include "common/transport/transport.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "shard_server/service/collective_plan.h"
#include "shard_server/service/host_place.h"
#include "shard_server/service/rank_worker.h"
#include "shard_server/service/shard_loop.h"
#include "shard_server/service/shard_metrics.h"

namespace krait::shard {

struct ShardOptions final {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t host_ranks = 0;              // ranks of all groups on this host, for memory, cores and spinning; 0: world
  int64_t host_index = -1;             // of this rank among them; -1: by its number in the group, if there is no other
  std::string cpus = "auto";           // to which its threads are bound: auto, none, a list (host_place.h)
  std::string weights = "cut";         // or "whole": each rank holds all of the model, and its own sequences
  std::string prefill_split = "auto";  // of whole weights: ranks that share a long prompt; auto: all, never: none
  std::string shares;  // one positive number a rank, with commas; rank 0's count for all. Empty: equal parts
  std::string group = "g0";
  std::string run_dir;            // where the group's sockets are
  std::string model;              // a folder, or a downloaded model's name (common/weights/model_place.h)
  std::string served_model_name;  // empty: the name of the model's folder
  std::string dtype = "f32";
  int64_t threads = 1;
  int64_t slots = 0;  // 0: by memory
  int64_t max_queue = limits::kDefaultMaxQueue;
  double max_step_ms = 50;
  double drain_seconds = 30;
  std::string collectives = "exact";  // how hidden sums travel (collective_plan.h); rank 0's counts for all
  std::string collectives_plan;       // rank 0's file of krait-tune; empty: beside the model, for "auto"
  std::string collectives_address;    // rank 0's host:port for ranks of other hosts; empty: all are on this one
};

class ShardDaemon final {
 public:
  /// Opens the checkpoint and makes the sockets. Errors name what is wrong with the model or the machine.
  static Result<std::unique_ptr<ShardDaemon>> start(ShardOptions options, const Clock& clock);
  ~ShardDaemon();

  /// Serves until `stop_requests` (another thread's) is not 0 and what was open has ended; 2 or more end it at once.
  /// Error: why this rank cannot go on.
  Status run(const std::atomic<int>& stop_requests);

  metrics::Registry& metrics() { return *registry_; }
  void set_metrics_port(uint32_t port) { join_.metrics_port = port; }

 private:
  ShardDaemon(ShardOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}
  bool whole_weights() const { return options_.weights == "whole"; }
  Status check_options();
  Status open_model();
  Status open();
  Status start_worker();
  LoopOptions loop_options() const;
  std::vector<wire::Message> take_answers();

  const ShardOptions options_;
  const Clock& clock_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  HostPlace host_place_;
  uint32_t prompt_ranks_ = 0;
  std::vector<double> shares_;
  GroupSums sums_;  // rank 0 only
  std::string model_name_;
  std::shared_ptr<collectives::TcpListener> listener_;
  wire::Join join_;
  std::unique_ptr<metrics::Registry> registry_;
  std::unique_ptr<ShardMetrics> shard_metrics_;
  std::unique_ptr<transport::Transport> transport_;
  GroupEndpoints endpoints_;
  std::mutex mutex_;
  std::vector<wire::Message> answers_;  // of the worker, not yet looked at
  bool was_ready_ = false;
  std::optional<Error> cannot_start_;   // why this rank, which was never ready, will not be
  std::unique_ptr<RankWorker> worker_;  // last: its thread uses what is above
};

}  // namespace krait::shard
