// What a handler gets (Request) and answers with (Responder). No sockets here: a test of the API may fake a Responder.
#pragma once

#include <functional>
#include <string>

#include "coordinator/http/headers.h"

namespace krait::http {

/// One complete request: the body has been read and its framing removed.
struct Request final {
  std::string method;      // as sent: "GET", "POST", ...
  std::string target;      // as sent: "/v1/models?x=1"
  std::string path;        // the target up to '?', without scheme and authority, still percent-encoded
  std::string query;       // what follows '?', still percent-encoded; empty when there is none
  Headers headers;         // values without surrounding white space; bytes above 127 are possible
  std::string body;        // any bytes
  std::string peer;        // "address:port" of the client's end of the connection
  std::string request_id;  // the client's x-request-id when it is valid, else one that was made
};

/// Answers one request, once: either respond(), or begin_stream(), write()..., end(). Every method may be called from
/// any thread, never blocks and never throws; calls that come too late (the client is gone, the answer is complete)
/// do nothing. Dropping the last reference without an answer sends a 500 (or, in a stream, cuts the connection, so
/// that the client can see that the answer is not complete).
///
/// Header names that are no tokens are dropped, bytes of values that could break the framing become '?'. The server
/// itself sets Content-Length, Transfer-Encoding, Connection, Date and x-request-id; such fields given here are
/// dropped.
class Responder {
 public:
  virtual ~Responder() = default;

  /// Sends the whole answer; a reader that stalls is cut off after kStreamStallNs. Where all answers that wait for
  /// their readers are more than kMaxUnsentBytes already, a large one becomes a 429.
  virtual void respond(int status, Headers headers, std::string body) = 0;

  /// Opens an answer of unknown length (chunked; for HTTP/1.0 it ends with the connection).
  virtual void begin_stream(int status, Headers headers) = 0;
  /// Queues a part. False: the client is gone, so stop working. When more than kMaxStreamBacklogBytes are already
  /// unsent, the stream is cancelled: so parts should be small against that limit.
  virtual bool write(std::string chunk) = 0;
  /// The same for a part that comes from what the client sent, a prompt's echo or scores: the request bounds it, and it
  /// comes at once rather than token by token, so it counts among all answers' unsent bytes and not as being behind.
  virtual bool write_bulk(std::string chunk) = 0;
  /// Completes the stream.
  virtual void end() = 0;

  /// Sets what is called, at most once and on an http thread, when the client disconnects, stalls, falls too far behind
  /// or the server stops before the answer is complete. If that has happened already, it is called at once, here. It is
  /// never called after respond() or end(). It must not block; it may call this object.
  virtual void on_close(std::function<void()> callback) = 0;
  /// False once the client is known to be gone or the answer is complete.
  virtual bool is_open() const = 0;
};

}  // namespace krait::http
