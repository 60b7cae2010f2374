// GET /metrics and GET /health on a port of their own, so that a busy API never hides the metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace krait::metrics {

/// One thread, a few connections. /metrics answers what `render` returns (the Prometheus text format 0.0.4), /health
/// answers "ok". `render` is called on the server's thread; an exception from it becomes a 500.
class MetricsServer final {
 public:
  /// `host`: an IP address or "localhost"; port 0 picks one. Fails with kInvalidArgument (host) or kIo (port in use).
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& host, uint16_t port,
                                                      std::function<std::string()> render);
  /// As stop().
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;
  /// Closes every connection and joins the thread; waits for nothing but a `render` that is running. Idempotent.
  void stop();

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace krait::metrics
