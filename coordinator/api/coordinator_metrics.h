// What the coordinator tells Prometheus: requests as clients see them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/metrics/registry.h"
#include "coordinator/api/completion_request.h"
#include "coordinator/http/http_server.h"
#include "coordinator/requests/cluster_client.h"
#include "coordinator/requests/request_core.h"

namespace krait::api {

class CoordinatorMetrics final {
 public:
  explicit CoordinatorMetrics(metrics::Registry& registry);

  /// For the request core; the registry must outlive it.
  requests::CoreObserver observer();
  void observe_access(const http::AccessRecord& record);
  /// Gauges and what others count, from time to time, on one thread.
  void observe(const std::vector<requests::GroupSnapshot>& groups, const ModelInfo& model,
               const http::ServerStats& http);

 private:
  using Build = std::pair<std::string, std::string>;  // numerics id, checkpoint's fingerprint

  void observe_builds(const std::vector<requests::GroupSnapshot>& groups);
  void observe_texts(const tokenizer::StretchCache::Counts& counts);

  metrics::Registry& registry_;
  std::set<Build> builds_;                   // that stand at 1
  tokenizer::StretchCache::Counts counted_;  // so far
};

}  // namespace krait::api
