// What the coordinator tells Prometheus: requests as clients see them.
#pragma once

#include <mutex>

#include "common/metrics/registry.h"
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
  /// Gauges, from time to time.
  void observe(const requests::ClusterClient& cluster, const http::ServerStats& http);

 private:
  metrics::Registry& registry_;
};

}  // namespace krait::api
