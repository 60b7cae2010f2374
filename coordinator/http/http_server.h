// HTTP/1.1 for the API: sockets, framing, limits and time-outs. It knows no endpoint and no model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/limits.h"
#include "common/base/result.h"
#include "coordinator/http/headers.h"
#include "coordinator/http/responder.h"

namespace krait::http {

/// Called on an http thread for each complete request. It may answer later and from elsewhere. While it runs, nothing
/// else happens on that connection (not even the notice that the client left), so long work belongs on another thread.
/// An exception that leaves it becomes a 500.
using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

/// One line of the access log: written when the answer has left, or when the connection ended before that.
struct AccessRecord final {
  std::string method;       // empty when the request was too broken to tell; limits::kMaxQuotedBytes at most
  std::string path;         // without the query, as much of it; never holds a prompt
  int status = 0;           // 499 when the client left before an answer began
  int64_t body_bytes = 0;   // of the response's body, as handed to the socket
  int64_t duration_ns = 0;  // from the request's first byte to the answer's last
  std::string request_id;
  std::string peer;
  bool complete = false;  // false when the connection ended first
};
/// Called on an http thread; must not block.
using AccessLog = std::function<void(const AccessRecord&)>;

struct Options final {
  std::string host = "127.0.0.1";  // an IP address or "localhost"
  uint16_t port = 0;               // 0 picks one
  int threads = 2;
  int64_t max_body_bytes = limits::kMaxBodyBytes;
  int64_t max_header_bytes = limits::kMaxHeaderBytes;
  int64_t max_buffered_body_bytes = limits::kMaxBufferedBodyBytes;  // bodies being read, all connections together
  int64_t max_stream_backlog_bytes = limits::kMaxStreamBacklogBytes;
  int64_t max_unsent_bytes = limits::kMaxUnsentBytes;  // of all answers
  int64_t send_buffer_bytes = limits::kSocketSendBufferBytes;
  int max_connections = limits::kMaxConnections;
  int64_t header_timeout_ns = limits::kHeaderTimeoutNs;
  int64_t body_timeout_ns = limits::kBodyTimeoutNs;
  int64_t idle_timeout_ns = limits::kIdleConnectionNs;
  int64_t stall_timeout_ns = limits::kStreamStallNs;
};

struct ServerStats final {
  int64_t connections = 0;          // open now
  int64_t open_requests = 0;        // being answered now
  int64_t unread_requests = 0;      // begun but not here as a whole, or refused so and their clients not gone yet
  int64_t refused_connections = 0;  // since the start, over the connection limit
  int64_t buffered_body_bytes = 0;  // bodies being read now
  int64_t unsent_bytes = 0;         // of answers that wait for their readers
};

class HttpServer final {
 public:
  /// Listens and starts its threads. Fails with kInvalidArgument (host) or kIo (port in use, no descriptors).
  static Result<std::unique_ptr<HttpServer>> start(const Options& options, Handler handler, AccessLog access_log = {});
  /// As stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  ServerStats stats() const;

  /// From now on a connection has one answer: idle ones end at once, others with the request that they have begun. New
  /// ones still come in, so that clients and probes are told something.
  void end_idle();
  /// end_idle(), and refuses new connections; requests that are not here as a whole are answered with 503.
  void stop_accepting();
  /// Waits until every request that has begun has ended, at most `timeout_ns`; true when all have. Call
  /// stop_accepting() first.
  bool drain(int64_t timeout_ns);
  /// Ends every connection (open requests get their on_close), joins the threads. Idempotent. Never call it from an
  /// http thread. Responders may outlive the server.
  void stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace krait::http
