#include "common/metrics/exposition.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <exception>
#include <optional>
#include <set>
#include <thread>

#include "common/base/limits.h"
#include "common/base/log.h"

namespace krait::metrics {
namespace {

namespace asio = boost::asio;
namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr size_t kReadBytes = 4096;

struct Answer final {
  int status = 200;
  std::string_view reason = "OK";
  std::string_view content_type = "text/plain; charset=utf-8";
  std::string body;
};

class Session;

// What the sessions share; touched on the server's one thread only.
struct Shared final {
  std::function<std::string()> render;
  std::set<std::shared_ptr<Session>> sessions;
};

// One connection: read a request head, answer, again.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(Shared& shared, tcp::socket socket)
      : shared_(shared), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void start() {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    next_request();
  }

  void close() {
    ErrorCode ignored;
    socket_.close(ignored);
    timer_.cancel();
    shared_.sessions.erase(shared_from_this());
  }

 private:
  void next_request() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(limits::kMaxMetricsHeaderBytes));
    parsed_bytes_ = 0;
    // Whoever scrapes keeps its connection between two scrapes; it comes back by itself when it was away for longer.
    set_deadline(limits::kIdleConnectionNs);
    take_bytes();
  }

  void read() {
    socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](ErrorCode error, size_t bytes) {
      if (error) return self->close();
      if (self->in_.empty() && self->parsed_bytes_ == 0) self->set_deadline(limits::kHeaderTimeoutNs);
      self->in_.append(self->chunk_.data(), bytes);
      self->take_bytes();
    });
  }

  void take_bytes() {
    ErrorCode error;
    const size_t used = in_.empty() ? 0 : parser_->put(asio::buffer(in_), error);
    in_.erase(0, used);
    parsed_bytes_ += static_cast<int64_t>(used);
    const bool too_long = parsed_bytes_ + static_cast<int64_t>(in_.size()) > limits::kMaxMetricsHeaderBytes;
    const bool has_body = parser_->is_header_done() && !parser_->is_done();
    if ((error && error != beast_http::error::need_more) || has_body || (too_long && !parser_->is_done())) {
      return send({400, "Bad Request", "text/plain; charset=utf-8", "bad request\n"}, false, false);
    }
    if (!parser_->is_done()) return read();
    const auto& request = parser_->get();
    send(answer(request), request.method() == beast_http::verb::head, request.keep_alive());
  }

  template <class Request>
  Answer answer(const Request& request) {
    const std::string_view target(request.target().data(), request.target().size());
    const std::string_view path = target.substr(0, target.find('?'));
    if (path != "/metrics" && path != "/health") return {.status = 404, .reason = "Not Found", .body = "not found\n"};
    if (request.method() != beast_http::verb::get && request.method() != beast_http::verb::head) {
      return {.status = 405, .reason = "Method Not Allowed", .body = "only GET\n"};
    }
    if (path == "/health") return {.body = "ok\n"};
    try {
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = shared_.render()};
    } catch (const std::exception& e) {
      log_error("metrics: rendering failed: {}", e.what());
      return {.status = 500, .reason = "Internal Server Error", .body = "rendering failed\n"};
    }
  }

  void send(const Answer& answer, bool head, bool keep_alive) {
    out_ =
        fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n\r\n", answer.status,
                    answer.reason, answer.content_type, answer.body.size(), keep_alive ? "keep-alive" : "close");
    if (!head) out_ += answer.body;
    set_deadline(limits::kStreamStallNs);
    asio::async_write(socket_, asio::buffer(out_), [self = shared_from_this(), keep_alive](ErrorCode error, size_t) {
      if (error || !keep_alive) return self->close();
      self->next_request();
    });
  }

  void set_deadline(int64_t from_now_ns) {
    timer_.expires_after(std::chrono::nanoseconds(from_now_ns));
    timer_.async_wait([weak = weak_from_this()](ErrorCode error) {
      // Moving a timer ends its wait with an error; one that had rung just before looks at the new time.
      const auto self = weak.lock();
      if (!error && self && self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->close();
    });
  }

  Shared& shared_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::optional<beast_http::request_parser<beast_http::empty_body>> parser_;
  std::array<char, kReadBytes> chunk_{};
  std::string in_;
  std::string out_;
  int64_t parsed_bytes_ = 0;
};

}  // namespace

class MetricsServer::Impl final {
 public:
  explicit Impl(std::function<std::string()> render) { shared_.render = std::move(render); }
  ~Impl() { stop(); }

  Status listen(const std::string& host, uint16_t port) {
    ErrorCode error;
    const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    if (error) return Error{Errc::kInvalidArgument, fmt::format("'{}' is no IP address to listen on", host), "host"};
    const tcp::endpoint endpoint(address, port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(limits::kListenBacklog, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) {
      return Error{Errc::kIo, fmt::format("cannot listen on {} port {} for metrics: {}", host, port, error.message()),
                   "port"};
    }
    return {};
  }

  void run() {
    accept();
    thread_ = std::thread([this] {
      for (;;) {
        try {
          context_.run();
          return;
        } catch (const std::exception& e) {
          log_error("metrics: {}", e.what());
        }
      }
    });
  }

  uint16_t port() const { return port_; }

  void stop() {
    if (!thread_.joinable()) return;
    // Without acceptor, sockets and timers the context has no work left, and its thread ends.
    asio::post(context_, [this] {
      ErrorCode ignored;
      acceptor_.close(ignored);
      retry_.cancel();
      const auto sessions = shared_.sessions;
      for (const auto& session : sessions)
        session->close();
    });
    thread_.join();
  }

 private:
  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error && error != asio::error::connection_aborted) return retry_accept();
      if (!error && std::cmp_less(shared_.sessions.size(), limits::kMaxMetricsConnections)) {
        auto session = std::make_shared<Session>(shared_, std::move(socket));
        shared_.sessions.insert(session);
        session->start();
      }
      accept();
    });
  }

  // Without descriptors, accept() would fail again and again at once.
  void retry_accept() {
    retry_.expires_after(std::chrono::nanoseconds(limits::kAcceptRetryNs));
    retry_.async_wait([this](ErrorCode) { accept(); });
  }

  Shared shared_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer retry_{context_};
  uint16_t port_ = 0;
  std::thread thread_;
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& host, uint16_t port,
                                                            std::function<std::string()> render) {
  auto impl = std::make_unique<Impl>(std::move(render));
  RETURN_IF_ERROR(impl->listen(host, port));
  try {
    impl->run();
  } catch (const std::exception& e) {
    return Error{Errc::kResourceExhausted, fmt::format("cannot start the metrics server's thread: {}", e.what()), ""};
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsServer::~MetricsServer() = default;

uint16_t MetricsServer::port() const {
  return impl_->port();
}

void MetricsServer::stop() {
  impl_->stop();
}

}  // namespace krait::metrics
