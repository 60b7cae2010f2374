#include "shard_server/service/shard_metrics.h"

#include <algorithm>

#include "shard_server/collectives/codec.h"

namespace krait::shard {

using metrics::CounterId;
using metrics::GaugeId;
using metrics::HistogramId;

ShardMetrics::ShardMetrics(metrics::Registry& registry) : registry_(registry) {}

void ShardMetrics::add_to(metrics::Counter& counter, uint64_t& seen, uint64_t now) {
  // A source that was made anew counts from zero again.
  counter.add(static_cast<double>(now >= seen ? now - seen : now));
  seen = now;
}

void ShardMetrics::observe_step(const wire::Step& step) {
  int64_t prefill = 0;
  int64_t decode = 0;
  for (const auto& run : step.runs) {
    (run.tokens.empty() ? decode : prefill) += run.rows();
  }
  registry_.counter(CounterId::kStepRows, {"prefill"}).add(static_cast<double>(prefill));
  registry_.counter(CounterId::kStepRows, {"decode"}).add(static_cast<double>(decode));
}

void ShardMetrics::observe_bad_message() {
  registry_.counter(CounterId::kWireDropped).add();
}

void ShardMetrics::observe_done(const wire::StepDone& done) {
  const auto seconds = [](int64_t us) { return static_cast<double>(us) / 1e6; };
  const auto& t = done.timings;
  registry_.histogram(HistogramId::kStepTime).observe(seconds(t.total_us));
  registry_.counter(CounterId::kStepPhaseTime, {"sample"}).add(seconds(t.sample_us));
  registry_.counter(CounterId::kStepPhaseTime, {"collective"}).add(seconds(t.collective_us));
  registry_.counter(CounterId::kStepPhaseTime, {"collective_wait"}).add(seconds(t.wait_us));
  registry_.counter(CounterId::kStepPhaseTime, {"forward"}).add(seconds(t.total_us - t.sample_us));
}

void ShardMetrics::observe_figures(const RankFigures& figures, const std::string& version,
                                   const std::string& fingerprint) {
  registry_.gauge(GaugeId::kWeightBytes).set(static_cast<double>(figures.weight_bytes));
  registry_.gauge(GaugeId::kStateBytes).set(static_cast<double>(figures.state_bytes));
  registry_.gauge(GaugeId::kNonFiniteWeights).set(static_cast<double>(figures.nonfinite_weights));
  if (!figures.numerics_id.empty() && figures.numerics_id != numerics_id_) {
    // A series cannot be taken back, so the one that is no longer true says 0.
    if (!numerics_id_.empty()) registry_.gauge(GaugeId::kBuildInfo, {version, numerics_id_, fingerprint}).set(0);
    numerics_id_ = figures.numerics_id;
    registry_.gauge(GaugeId::kBuildInfo, {version, numerics_id_, fingerprint}).set(1);
  }
  if (!figures.collective_plan.empty() && figures.collective_plan != collective_plan_) {
    if (!collective_plan_.empty()) registry_.gauge(GaugeId::kCollectivePlan, {collective_plan_}).set(0);
    collective_plan_ = figures.collective_plan;
    registry_.gauge(GaugeId::kCollectivePlan, {collective_plan_}).set(1);
  }
  observe_collectives(figures.collectives);
}

void ShardMetrics::observe_collectives(const collectives::CodecStatistics& now) {
  for (const collectives::CodecEntry& codec : collectives::all_codecs()) {
    for (size_t kind = 0; kind < collectives::kOpKinds; ++kind) {
      const auto index = static_cast<size_t>(codec.codec);
      const collectives::OpStatistics& counted = now[index][kind];
      collectives::OpStatistics& seen = collectives_[index][kind];
      if (counted.operations < seen.operations) seen = {};
      const auto op = collectives::op_name(static_cast<collectives::OpKind>(kind));
      // What is no sum travels as it is.
      if (counted.operations == 0 && codec.format.has_value()) continue;
      const auto add = [&](CounterId id, double value) { registry_.counter(id, {op, codec.name}).add(value); };
      add(CounterId::kCollectives, double(counted.operations - seen.operations));
      add(CounterId::kCollectiveBytes, double(counted.contributed_bytes - seen.contributed_bytes));
      add(CounterId::kCollectiveTime, double(counted.time_ns - seen.time_ns) / 1e9);
      add(CounterId::kCollectiveWait, double(counted.wait_ns - seen.wait_ns) / 1e9);
      seen = counted;
    }
  }
}

void ShardMetrics::observe_leader(const Leader& leader) {
  add_to(registry_.counter(CounterId::kEpochs), epochs_, leader.stats().epochs);
  add_to(registry_.counter(CounterId::kDigestMismatches), mismatches_, leader.stats().digest_mismatches);
  const scheduler::Scheduler* scheduler = leader.scheduler();
  const auto gauge = [&](GaugeId id, double value) { registry_.gauge(id).set(value); };
  gauge(GaugeId::kSequencesRunning, scheduler != nullptr ? scheduler->running() : 0);
  gauge(GaugeId::kSequencesWaiting, scheduler != nullptr ? scheduler->waiting() : 0);
  gauge(GaugeId::kBacklog, scheduler != nullptr ? scheduler->backlog_seconds() : 0);
  registry_.gauge(GaugeId::kSlots, {"used"}).set(scheduler != nullptr ? scheduler->running() : 0);
  registry_.gauge(GaugeId::kSlots, {"free"}).set(scheduler != nullptr ? scheduler->free_slots() : 0);
  registry_.gauge(GaugeId::kKvPages, {"used"}).set(scheduler != nullptr ? scheduler->used_pages() : 0);
  registry_.gauge(GaugeId::kKvPages, {"free"}).set(scheduler != nullptr ? scheduler->free_pages() : 0);
  const scheduler::SchedulerStats now = scheduler != nullptr ? scheduler->stats() : scheduler::SchedulerStats{};
  auto& seen = scheduler_stats_;
  add_to(registry_.counter(CounterId::kTokens, {"prompt"}), seen.prompt_tokens, now.prompt_tokens);
  add_to(registry_.counter(CounterId::kSharedPromptTokens), seen.shared_prompt_tokens, now.shared_prompt_tokens);
  add_to(registry_.counter(CounterId::kTokens, {"generated"}), seen.generated_tokens, now.generated_tokens);
  add_to(registry_.counter(CounterId::kQueueRejects, {"refused"}), seen.rejected, now.rejected);
  add_to(registry_.counter(CounterId::kCancels, {"cancelled"}), seen.cancelled, now.cancelled);
  add_to(registry_.counter(CounterId::kNonFiniteLogits), seen.non_finite, now.non_finite);
}

}  // namespace krait::shard
