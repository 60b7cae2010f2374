#include "coordinator/api/coordinator_metrics.h"

#include "common/base/version.h"
#include "coordinator/api/api.h"

namespace krait::api {
namespace {

using metrics::CounterId;
using metrics::GaugeId;
using metrics::HistogramId;

std::string_view reason_name(wire::FinishReason reason) {
  switch (reason) {
    case wire::FinishReason::kStop:
      return "stop";
    case wire::FinishReason::kLength:
      return "length";
    case wire::FinishReason::kCancelled:
      return "cancelled";
    case wire::FinishReason::kDeadline:
      return "deadline";
    case wire::FinishReason::kError:
      return "error";
  }
  return "unknown";
}

/// Paths as clients send them are unbounded; the API's own are not.
std::string_view endpoint_name(std::string_view path) {
  for (const std::string_view known : {
#define ENDPOINT(method, path, ...) std::string_view(path),
#include "coordinator/api/endpoints.def"
#undef ENDPOINT
       }) {
    if (path_fits(known, path)) return known;
  }
  return "other";
}

double seconds(int64_t us) {
  return static_cast<double>(us) / 1e6;
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(metrics::Registry& registry) : registry_(registry) {}

requests::CoreObserver CoordinatorMetrics::observer() {
  requests::CoreObserver observer;
  auto& registry = registry_;
  observer.on_first_token = [&registry](int64_t ns) {
    registry.histogram(HistogramId::kTimeToFirstToken).observe(static_cast<double>(ns) / 1e9);
  };
  observer.on_inter_token = [&registry](int64_t ns) {
    registry.histogram(HistogramId::kInterTokenLatency).observe(static_cast<double>(ns) / 1e9);
  };
  observer.on_request_end = [&registry](int64_t ns) {
    registry.histogram(HistogramId::kRequestLatency).observe(static_cast<double>(ns) / 1e9);
  };
  observer.on_sequence_end = [&registry](const requests::SequenceReport& report) {
    registry.counter(CounterId::kRequestSuccess, {reason_name(report.reason)}).add();
    if (!report.timed) return;
    registry.histogram(HistogramId::kQueueTime).observe(seconds(report.queue_us));
    registry.histogram(HistogramId::kPrefillTime).observe(seconds(report.prefill_us));
    registry.histogram(HistogramId::kDecodeTime).observe(seconds(report.decode_us));
  };
  observer.on_bad_message = [&registry] { registry.counter(CounterId::kWireDropped).add(); };
  return observer;
}

void CoordinatorMetrics::observe_access(const http::AccessRecord& record) {
  registry_.counter(CounterId::kRequests, {endpoint_name(record.path), std::to_string(record.status)}).add();
  registry_.counter(CounterId::kHttpSentBytes).add(static_cast<double>(record.body_bytes));
}

void CoordinatorMetrics::observe_builds(const std::vector<requests::GroupSnapshot>& groups) {
  std::set<Build> now;
  for (const auto& group : groups) {
    if (!group.status.numerics_id.empty()) now.emplace(group.status.numerics_id, group.status.fingerprint);
  }
  // A group that forms anew may run something else: what ran before must not stay at 1 beside it.
  const auto set = [&](const Build& build, double value) {
    registry_.gauge(GaugeId::kBuildInfo, {version(), build.first, build.second}).set(value);
  };
  for (const Build& build : builds_) {
    if (!now.contains(build)) set(build, 0);
  }
  for (const Build& build : now)
    set(build, 1);
  builds_ = std::move(now);
}

void CoordinatorMetrics::observe_texts(const tokenizer::StretchCache::Counts& counts) {
  const auto add = [&](std::string_view source, uint64_t more) {
    registry_.counter(CounterId::kTokenizedBytes, {source}).add(static_cast<double>(more));
  };
  add("computed", counts.encoded_bytes - counted_.encoded_bytes);
  add("cache", counts.found_bytes - counted_.found_bytes);
  registry_.gauge(GaugeId::kTextCacheBytes).set(static_cast<double>(counts.held_bytes));
  counted_ = counts;
}

void CoordinatorMetrics::observe(const std::vector<requests::GroupSnapshot>& groups, const ModelInfo& model,
                                 const http::ServerStats& http) {
  double running = 0;
  double waiting = 0;
  for (const auto& group : groups) {
    running += group.status.running;
    waiting += group.status.waiting;
    // Under the name that clients use, so that a group that has not been heard of yet is the same series as later.
    registry_.gauge(GaugeId::kGroupUp, {group.name, model.name})
        .set(group.serving && group.status.model == model.name ? 1 : 0);
  }
  observe_builds(groups);
  if (model.texts != nullptr) observe_texts(model.texts->counts());
  registry_.gauge(GaugeId::kRequestsRunning).set(running);
  registry_.gauge(GaugeId::kRequestsWaiting).set(waiting);
  registry_.gauge(GaugeId::kUnsentBytes).set(static_cast<double>(http.unsent_bytes));
  registry_.gauge(GaugeId::kConnections).set(static_cast<double>(http.connections));
}

}  // namespace krait::api
