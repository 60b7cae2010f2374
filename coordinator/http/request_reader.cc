#include "coordinator/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

namespace krait::http {
namespace {

namespace beast_http = boost::beast::http;

constexpr size_t kLeastChunkedBytes = 5;

bool is_method_char(char c) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kMarks.find(c) != std::string_view::npos;
}

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Whether a chunk can begin with these bytes, as far as they go; the end of the one before it is the line end in front.
bool may_begin_chunk(std::string_view bytes, bool is_first) {
  if (!is_first) {
    const std::string_view line_end = bytes.substr(0, 2);
    if (!std::string_view("\r\n").starts_with(line_end)) return false;
    bytes.remove_prefix(line_end.size());
  }
  if (bytes.empty()) return true;
  const auto* const digits_end = std::find_if_not(bytes.begin(), bytes.end(), is_hex_digit);
  return digits_end != bytes.begin() &&
         (digits_end == bytes.end() || std::string_view("\r; \t").find(*digits_end) != std::string_view::npos);
}

std::string to_std(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// What follows "http://" or "https://", if the target is in absolute form.
std::optional<std::string_view> after_scheme(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (names_equal(target.substr(0, scheme.size()), scheme)) return target.substr(scheme.size());
  }
  return std::nullopt;
}

// Origin form, absolute form, or the "*" that stands for the whole server.
bool is_target(std::string_view target) {
  return target.starts_with('/') || target == "*" || after_scheme(target);
}

// "/path?query" of a target in origin form or absolute form ("http://host/path?query").
void split_target(Request& request) {
  std::string_view rest = request.target;
  if (const auto absolute = after_scheme(rest)) {
    rest = *absolute;
    const size_t end = rest.find_first_of("/?");
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
  }
  rest = rest.substr(0, rest.find('#'));
  const size_t mark = rest.find('?');
  request.path = std::string(rest.substr(0, mark));
  if (request.path.empty()) request.path.push_back('/');
  if (mark != std::string_view::npos) request.query = std::string(rest.substr(mark + 1));
}

}  // namespace

struct RequestReader::Parser final {
  beast_http::request_parser<beast_http::string_body> beast;
};

RequestReader::RequestReader(const ReaderLimits& limits) : limits_(limits) {
  restart();
}

RequestReader::~RequestReader() = default;

void RequestReader::restart() {
  parser_ = std::make_unique<Parser>();
  parser_->beast.eager(false);
  parser_->beast.header_limit(static_cast<uint32_t>(limits_.max_header_bytes));
  parser_->beast.body_limit(static_cast<uint64_t>(limits_.max_body_bytes));
  state_ = State::kStart;
  header_bytes_ = 0;
  body_begun_ = false;
  awaits_continue_ = keep_alive_ = http_1_0_ = false;
  request_ = Request{};
}

void RequestReader::fail(int status, Errc code, std::string message, std::string param) {
  if (state_ == State::kHeader) copy_head();  // As much as there is of it, for the log.
  state_ = State::kFailed;
  awaits_continue_ = false;
  failure_ = {status, {code, std::move(message), std::move(param)}};
}

size_t RequestReader::feed(std::string_view bytes) {
  if (state_ == State::kComplete || state_ == State::kFailed) return 0;
  size_t skipped = 0;
  if (state_ == State::kStart) {
    // Empty lines before a request line are skipped, as RFC 9112 (2.2) asks of servers.
    while (bytes.substr(skipped).starts_with("\r\n"))
      skipped += 2;
    bytes.remove_prefix(skipped);
    if (bytes.empty() || bytes == "\r") return skipped;
    state_ = State::kHeader;
  }
  if (state_ == State::kHeader && header_bytes_ == 0 && !check_first_bytes(bytes)) return skipped;

  size_t used = 0;
  if (state_ == State::kHeader) used = feed_header(bytes);
  if (state_ == State::kBody) used += feed_body(bytes.substr(used));
  return skipped + used;
}

size_t RequestReader::put(std::string_view bytes) {
  boost::beast::error_code error;
  const size_t used = parser_->beast.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error && error != beast_http::error::need_more) fail_from_parser(error.value(), error.message());
  return used;
}

// Beast takes field by field and applies its header limit to what is left, so the sum is kept here.
size_t RequestReader::feed_header(std::string_view bytes) {
  const size_t used = put(bytes);
  header_bytes_ += static_cast<int64_t>(used);
  if (state_ == State::kFailed) return used;
  // Beast joins folded lines; a proxy may see a field of its own there, and none may be hidden from either.
  for (const std::string_view fold : {"\r\n ", "\r\n\t"}) {
    if (bytes.substr(0, used).find(fold) == std::string_view::npos) continue;
    fail(400, Errc::kInvalidArgument, "A header goes on in a second line.");
    return used;
  }
  const bool done = parser_->beast.is_header_done();
  const int64_t waiting = done ? 0 : static_cast<int64_t>(bytes.size() - used);
  if (header_bytes_ + waiting > limits_.max_header_bytes) {
    fail_headers_too_large();
  } else if (done) {
    copy_head();
    state_ = State::kBody;
    parser_->beast.eager(true);
    check_head();
  }
  return used;
}

size_t RequestReader::feed_body(std::string_view bytes) {
  // No chunked body is shorter than "0 CR LF CR LF", and Beast asserts that it is never asked to go on with less.
  const bool chunked = parser_->beast.chunked();
  const bool enough = body_begun_ || !chunked || bytes.size() >= kLeastChunkedBytes;
  const size_t used = parser_->beast.is_done() || bytes.empty() || !enough ? 0 : put(bytes);
  body_begun_ = body_begun_ || used > 0;
  if (state_ == State::kFailed) return used;
  if (parser_->beast.is_done()) {
    state_ = State::kComplete;
    awaits_continue_ = false;
  } else if (chunked && !may_begin_chunk(bytes.substr(used), !body_begun_)) {
    // Beast waits for the end of the line, and after a size of zero for that of the trailer: in vain, if none comes.
    fail(400, Errc::kInvalidArgument, "The body does not go on with the size of a chunk.");
  } else if (std::cmp_greater(bytes.size() - used, limits_.max_header_bytes)) {
    // The extension of a chunk or the trailer; Beast sets no limit to these.
    fail_headers_too_large();
  }
  return used;
}

// What a parser that waits for the end of the headers would tell only after a time-out.
bool RequestReader::check_first_bytes(std::string_view bytes) {
  if (bytes[0] == 0x16) {
    fail(400, Errc::kInvalidArgument, "This port speaks plain HTTP, but the client began a TLS handshake.");
  } else if (!is_method_char(bytes[0])) {
    fail(400, Errc::kInvalidArgument, "The request does not begin with a method.");
  } else if (const size_t line = bytes.find('\n'); line != std::string_view::npos && bytes[line - 1] != '\r') {
    fail(400, Errc::kInvalidArgument, "The request line does not end with CR LF.");
  }
  return state_ != State::kFailed;
}

// Taken when the headers end and not later: what a trailer adds must not pass for a header.
void RequestReader::copy_head() {
  const auto& message = parser_->beast.get();
  request_.method = to_std(message.method_string());
  request_.target = to_std(message.target());
  split_target(request_);
  http_1_0_ = message.version() == 10;
  keep_alive_ = message.keep_alive();
  request_.headers = Headers{};
  for (const auto& field : message)
    request_.headers.add(to_std(field.name_string()), to_std(field.value()));
}

void RequestReader::check_head() {
  const Headers& headers = request_.headers;
  if (std::cmp_greater(headers.size(), limits_.max_headers)) {
    return fail(
        431, Errc::kHeadersTooLarge,
        fmt::format("The request has {} headers; at most {} are accepted.", headers.size(), limits_.max_headers));
  }
  if (!is_target(request_.target)) {
    return fail(400, Errc::kInvalidArgument, "The request's target is neither a path nor an http URL.");
  }
  const size_t hosts = headers.count("Host");
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    return fail(400, Errc::kInvalidArgument, "The request needs exactly one Host header.", "Host");
  }
  if (headers.find("Host").value_or("").find_first_of(" \t,/?#@\\") != std::string_view::npos) {
    return fail(400, Errc::kInvalidArgument, "The header Host is no host.", "Host");
  }
  // Even one length that is said twice: who stands in between may have joined or dropped one.
  const auto length = headers.find("Content-Length");
  if (length && (headers.count("Content-Length") > 1 || length->find(',') != std::string_view::npos)) {
    return fail(400, Errc::kInvalidArgument, "The request has more than one Content-Length.", "Content-Length");
  }
  // Anything but plain chunks would leave two readings of where the body ends.
  if (const auto coding = headers.find("Transfer-Encoding")) {
    if (http_1_0_) return fail(400, Errc::kInvalidArgument, "HTTP/1.0 has no Transfer-Encoding.", "Transfer-Encoding");
    if (headers.count("Transfer-Encoding") > 1 || !names_equal(*coding, "chunked")) {
      return fail(501, Errc::kUnsupported, "The only supported Transfer-Encoding is chunked.", "Transfer-Encoding");
    }
  }
  if (const auto coding = headers.find("Content-Encoding"); coding && !names_equal(*coding, "identity")) {
    return fail(415, Errc::kInvalidArgument, "Encoded request bodies are not supported.", "Content-Encoding");
  }
  if (const auto expect = headers.find("Expect"); expect && !http_1_0_) {
    if (!names_equal(*expect, "100-continue")) {
      return fail(417, Errc::kInvalidArgument, "The only supported expectation is 100-continue.", "Expect");
    }
    awaits_continue_ = true;
  }
}

void RequestReader::fail_headers_too_large() {
  fail(431, Errc::kHeadersTooLarge,
       fmt::format("The request line and headers exceed {} bytes.", limits_.max_header_bytes));
}

void RequestReader::fail_from_parser(int error_value, const std::string& text) {
  switch (static_cast<beast_http::error>(error_value)) {
    case beast_http::error::header_limit:
    case beast_http::error::buffer_overflow:
      return fail_headers_too_large();
    case beast_http::error::body_limit:
      return fail(413, Errc::kTooLarge, fmt::format("The request body exceeds {} bytes.", limits_.max_body_bytes));
    case beast_http::error::bad_version:
      return fail(505, Errc::kInvalidArgument, "Only HTTP/1.0 and HTTP/1.1 are supported.");
    case beast_http::error::bad_alloc:
      return fail(503, Errc::kUnavailable, "No memory for this request.");
    case beast_http::error::bad_content_length:
    case beast_http::error::multiple_content_length:
      return fail(400, Errc::kInvalidArgument, fmt::format("The request is malformed: {}.", text), "Content-Length");
    case beast_http::error::bad_transfer_encoding:
      return fail(400, Errc::kInvalidArgument, fmt::format("The request is malformed: {}.", text), "Transfer-Encoding");
    default:
      return fail(400, Errc::kInvalidArgument, fmt::format("The request is malformed: {}.", text));
  }
}

Request RequestReader::take() {
  CHECK(state_ == State::kComplete);
  Request request = std::move(request_);
  request.body = std::move(parser_->beast.get().body());
  restart();
  return request;
}

bool RequestReader::take_continue() {
  return std::exchange(awaits_continue_, false);
}

int64_t RequestReader::body_bytes() const {
  return static_cast<int64_t>(parser_->beast.get().body().size());
}

}  // namespace krait::http
