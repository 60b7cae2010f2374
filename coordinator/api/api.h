// The REST API: endpoints by name and method, keys, errors. Sockets are http's, the cluster is requests'.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/fair_room.h"
#include "common/base/limits.h"
#include "common/metrics/registry.h"
#include "coordinator/api/completion_request.h"
#include "coordinator/api/executor.h"
#include "coordinator/http/http_server.h"
#include "coordinator/http/responder.h"
#include "coordinator/requests/cluster_client.h"

namespace krait::api {

struct ApiOptions final {
  ModelInfo model;
  std::vector<std::string> api_keys;  // empty: none is asked for
  bool strict_fields = false;         // refuse fields that nobody knows
  int64_t request_timeout_ms = 600'000;
  int64_t created_s = 0;  // of the model entry
  int threads = 2;
  int64_t large_body_bytes = 64 * kKiB;                     // larger ones are read by a thread of their own
  size_t max_waiting = limits::kMaxApiWork;                 // requests to be read and tokenized
  int64_t max_answer_bytes = limits::kMaxWholeAnswerBytes;  // of one that is not streamed
  int64_t max_answers_bytes = limits::kMaxUnsentBytes;      // of all of those together, while they grow
  int64_t keep_alive_ns = limits::kKeepAliveCommentNs;      // a stream that is silent for this long gets a comment
};

using ResponderPtr = std::shared_ptr<http::Responder>;

/// Everything that endpoints use. Thread-safe.
class Api final {
 public:
  Api(ApiOptions options, requests::ClusterClient& cluster, metrics::Registry& registry);
  ~Api();

  /// For HttpServer::start. The server must be stopped before this object goes.
  http::Handler handler();

  const ApiOptions& options() const { return options_; }
  const ModelInfo& model() const { return options_.model; }
  requests::ClusterClient& cluster() { return cluster_; }
  metrics::Registry& registry() { return registry_; }
  Executor& executor() { return executor_; }
  /// For whole answers while they are put together, in bytes.
  FairRoom& answers_room() { return answers_room_; }
  /// Who sent a request, for sharing between clients: its API key where keys are checked and it has a valid one, as a
  /// hash that tells nothing of it and is the same at every coordinator; else the address that it comes from. So names
  /// that a client gives itself bring it nothing.
  std::string client_of(const http::Request& request) const;

  /// From now on /ready answers 503.
  void set_draining() { draining_ = true; }
  bool draining() const { return draining_; }

  /// Called about once a second (more often when keep_alive_ns is less) until it returns false, on a thread of the API.
  void every_tick(std::function<bool()> call);

 private:
  bool has_key(const http::Request& request) const;
  void tick();

  const ApiOptions options_;
  requests::ClusterClient& cluster_;
  metrics::Registry& registry_;
  std::atomic<bool> draining_ = false;
  std::mutex ticker_mutex_;
  std::condition_variable ticker_wake_;
  std::vector<std::function<bool()>> every_tick_;
  bool stop_ = false;
  FairRoom answers_room_;  // before whatever holds parts of it
  Executor executor_;
  Executor large_executor_;  // however many long texts are tokenized, short requests do not wait for them
  std::thread ticker_;
};

/// What an endpoint asks of its clients; endpoints.def has it for each.
enum class Access : uint8_t {
  kKey,    // an API key, where keys are in use
  kOpen,   // nothing
  kProbe,  // nothing, and it waits for no other request: a process whose threads are busy is alive
};

/// Whether an endpoint's path, as endpoints.def has it, is the one of a request.
bool path_fits(std::string_view pattern, std::string_view path);

/// Counts them; with strict_fields, the first is an error.
Status take_unknown_fields(Api& api, const UnknownFields& unknown);
/// Names them in a header, where there are any.
void add_unknown_fields(http::Headers& headers, const UnknownFields& unknown);

/// Answers with OpenAI's error object, Retry-After when given, and counts it.
void respond_error(Api& api, http::Responder& responder, const Error& error, uint32_t retry_after_s = 0);
void respond_json(http::Responder& responder, int status, std::string json, const UnknownFields& unknown = {});

}  // namespace krait::api
