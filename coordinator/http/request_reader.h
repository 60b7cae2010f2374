// Bytes in, requests out: the grammar and the size limits of HTTP/1.x, without sockets or clocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/result.h"
#include "coordinator/http/responder.h"

namespace krait::http {

struct ReaderLimits final {
  int64_t max_header_bytes = limits::kMaxHeaderBytes;
  int64_t max_headers = limits::kMaxRequestHeaders;
  int64_t max_body_bytes = limits::kMaxBodyBytes;
};

/// Why a request was refused. The status is here beside the Error since HTTP has more of them than errors.def.
struct ReadFailure final {
  int status = 400;
  Error error;
};

/// Reads one request after the other from a connection. Never throws on input, never reaches a CHECK by it.
class RequestReader final {
 public:
  enum class State : uint8_t {
    kStart,     // no byte of the next request seen (but empty lines, which are skipped)
    kHeader,    // in the request line or the headers
    kBody,      // the headers are complete, the body is not
    kComplete,  // take() it
    kFailed,    // failure() tells; the connection cannot go on
  };

  explicit RequestReader(const ReaderLimits& limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Looks at the connection's next bytes and returns how many it is done with; the others must come again, with more
  /// behind them, at the next call (at most max_header_bytes). Stops at a request's end.
  size_t feed(std::string_view bytes);

  State state() const { return state_; }
  const ReadFailure& failure() const { return failure_; }
  /// Gives the present request up for a reason that the bytes do not show, as a time-out.
  void fail(int status, Errc code, std::string message, std::string param = "");
  /// The request, with `peer` and `request_id` empty; only in kComplete. The reader then begins the next one.
  Request take();

  /// True once a request, when the client waits for "100 Continue" before it sends the body.
  bool take_continue();
  /// Bytes of the body that are held so far.
  int64_t body_bytes() const;

  // Of the present request, as far as it has been read: for answers to refused ones too.
  std::string_view method() const { return request_.method; }
  std::string_view path() const { return request_.path; }
  std::optional<std::string_view> client_request_id() const { return request_.headers.find("x-request-id"); }
  /// What the client asked for; known from kBody on.
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }

 private:
  struct Parser;  // Beast's

  void restart();
  size_t put(std::string_view bytes);
  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  bool check_first_bytes(std::string_view bytes);
  void copy_head();
  void check_head();
  void fail_headers_too_large();
  void fail_from_parser(int error_value, const std::string& text);

  const ReaderLimits limits_;
  std::unique_ptr<Parser> parser_;
  State state_ = State::kStart;
  int64_t header_bytes_ = 0;
  bool body_begun_ = false;  // a byte of it has been consumed
  bool awaits_continue_ = false;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  Request request_;
  ReadFailure failure_;
};

}  // namespace krait::http
