#include "coordinator/http/http_server.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <thread>
#include <vector>

#include "common/base/log.h"
#include "coordinator/http/connection.h"

namespace krait::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

Result<tcp::endpoint> endpoint_of(const std::string& host, uint16_t port) {
  ErrorCode error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) return Error{Errc::kInvalidArgument, fmt::format("'{}' is no IP address to listen on", host), "host"};
  return tcp::endpoint(address, port);
}

Status check_options(const Options& options) {
  const auto positive = [](int64_t value) { return value > 0; };
  const bool good = options.threads > 0 && options.max_connections > 0 && positive(options.max_header_bytes) &&
                    options.max_header_bytes <= limits::kMaxHeaderBytes && options.max_body_bytes >= 0 &&
                    positive(options.max_buffered_body_bytes) && positive(options.max_stream_backlog_bytes) &&
                    positive(options.send_buffer_bytes) && options.send_buffer_bytes <= kGiB &&
                    positive(options.header_timeout_ns) && positive(options.body_timeout_ns) &&
                    positive(options.idle_timeout_ns) && positive(options.stall_timeout_ns);
  if (!good) return Error{Errc::kInvalidArgument, "an option of the HTTP server is out of its range", "http"};
  return {};
}

}  // namespace

class HttpServer::Impl final {
 public:
  Impl(const Options& options, Handler handler, AccessLog access_log)
      : context_(options.threads), work_(context_.get_executor()), acceptor_(context_), retry_(context_) {
    core_->options = options;
    core_->handler = std::move(handler);
    core_->access_log = std::move(access_log);
  }
  ~Impl() { stop(); }

  Status listen() {
    const Options& options = core_->options;
    ASSIGN_OR_RETURN(const tcp::endpoint endpoint, endpoint_of(options.host, options.port));
    ErrorCode error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(limits::kListenBacklog, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) {
      return Error{Errc::kIo,
                   fmt::format("cannot listen on {} port {}: {}", options.host, options.port, error.message()), "port"};
    }
    return {};
  }

  void run() {
    asio::post(accept_strand_, [this] { accept(); });
    for (int i = 0; i < core_->options.threads; ++i) {
      threads_.emplace_back([this] { run_thread(); });
    }
  }

  uint16_t port() const { return port_; }

  ServerStats stats() const {
    ServerStats stats;
    stats.refused_connections = core_->refused_connections.load();
    stats.buffered_body_bytes = core_->buffered_body_bytes.load();
    stats.unsent_bytes = core_->unsent_bytes->load();
    const std::lock_guard lock(core_->mutex);
    stats.connections = static_cast<int64_t>(core_->connections.size());
    stats.open_requests = core_->open_requests;
    stats.unread_requests = core_->unread_requests;
    return stats;
  }

  void end_idle() {
    core_->draining->store(true);
    for (const auto& connection : connections())
      connection->end_if_idle();
  }

  void stop_accepting() {
    core_->draining->store(true);
    asio::post(accept_strand_, [this] { close_acceptor(); });
    for (const auto& connection : connections())
      connection->drain();
  }

  bool drain(int64_t timeout_ns) {
    std::unique_lock lock(core_->mutex);
    return core_->request_ended.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                         [&] { return core_->open_requests == 0 && core_->unread_requests == 0; });
  }

  void stop() {
    if (threads_.empty()) return;
    core_->draining->store(true);
    asio::post(accept_strand_, [this] { close_acceptor(); });
    {
      const std::lock_guard lock(core_->mutex);
      core_->stopped = true;
    }
    for (const auto& connection : connections())
      connection->stop();
    // The threads end by themselves when the last connection has let go; nothing is left behind in the context.
    work_.reset();
    for (std::thread& thread : threads_)
      thread.join();
    threads_.clear();
  }

 private:
  void run_thread() {
    for (;;) {
      try {
        context_.run();
        return;
      } catch (const std::exception& e) {
        log_error("http: {}", e.what());  // Out of memory, as a rule: this event is lost, the server goes on.
      }
    }
  }

  std::vector<std::shared_ptr<Connection>> connections() const {
    const std::lock_guard lock(core_->mutex);
    return {core_->connections.begin(), core_->connections.end()};
  }

  void close_acceptor() {
    ErrorCode ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  }

  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept(asio::bind_executor(accept_strand_, [this](ErrorCode error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        adopt(std::move(socket));
      } else if (error != asio::error::connection_aborted) {
        return retry_accept(error);
      }
      accept();
    }));
  }

  // Without descriptors or memory, accept() fails at once again and again: wait, so that something can be given back.
  void retry_accept(ErrorCode error) {
    if (error != last_accept_error_) log_warning("http: cannot accept a connection: {}", error.message());
    last_accept_error_ = error;
    retry_.expires_after(std::chrono::nanoseconds(limits::kAcceptRetryNs));
    retry_.async_wait(asio::bind_executor(accept_strand_, [this](ErrorCode) { accept(); }));
  }

  void adopt(tcp::socket socket) {
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(core_->mutex);
      const auto open = static_cast<int64_t>(core_->connections.size()) - core_->refused_open;
      const bool refused = open >= core_->options.max_connections;
      if (refused) core_->refused_connections.fetch_add(1);
      // Telling a client takes a connection too, so their number is bounded as well; the others are just closed.
      if (core_->stopped || (refused && core_->refused_open >= limits::kMaxRefusedConnections)) return;
      connection = std::make_shared<Connection>(core_, context_, std::move(socket), refused);
      core_->connections.insert(connection);
      if (refused) ++core_->refused_open;
    }
    connection->start();
  }

  std::shared_ptr<ServerCore> core_ = std::make_shared<ServerCore>();
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Connection::Strand accept_strand_ = asio::make_strand(context_);
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  ErrorCode last_accept_error_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Options& options, Handler handler, AccessLog access_log) {
  CHECK(handler != nullptr);
  RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>(options, std::move(handler), std::move(access_log));
  RETURN_IF_ERROR(impl->listen());
  try {
    impl->run();
  } catch (const std::exception& e) {
    return Error{Errc::kResourceExhausted, fmt::format("cannot start the HTTP server's threads: {}", e.what()), ""};
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const {
  return impl_->port();
}

ServerStats HttpServer::stats() const {
  return impl_->stats();
}

void HttpServer::end_idle() {
  impl_->end_idle();
}

void HttpServer::stop_accepting() {
  impl_->stop_accepting();
}

bool HttpServer::drain(int64_t timeout_ns) {
  return impl_->drain(timeout_ns);
}

void HttpServer::stop() {
  impl_->stop();
}

}  // namespace krait::http
