// What a shard server tells Prometheus, gathered from the scheduler, the leader and the ranks' answers.
#pragma once

#include <cstdint>
#include <string>

#include "common/metrics/registry.h"
#include "common/wire/messages.h"
#include "shard_server/scheduler/scheduler.h"
#include "shard_server/service/leader.h"
#include "shard_server/service/rank_worker.h"

namespace krait::shard {

/// Used by the socket thread alone. The sources count from their own start; this keeps what was added so far.
class ShardMetrics final {
 public:
  explicit ShardMetrics(metrics::Registry& registry);

  void observe_step(const wire::Step& step);  // as it goes to the rank
  void observe_bad_message();
  void observe_done(const wire::StepDone& done);  // this rank's own
  void observe_figures(const RankFigures& figures, const std::string& version, const std::string& fingerprint);
  void observe_leader(const Leader& leader);

 private:
  void observe_collectives(const collectives::CodecStatistics& now);
  void add_to(metrics::Counter& counter, uint64_t& seen, uint64_t now);

  metrics::Registry& registry_;
  std::string numerics_id_;
  uint64_t epochs_ = 0;
  uint64_t mismatches_ = 0;
  scheduler::SchedulerStats scheduler_stats_;
  std::string collective_plan_;
  collectives::CodecStatistics collectives_{};
};

}  // namespace krait::shard
