// One client's connection: a machine on a strand that reads, hands requests on, writes answers and watches the clock.
// Only connection.cc, connection_answer.cc and http_server.cc include this: it brings Asio.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "common/base/log.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/http_server.h"
#include "coordinator/http/request_reader.h"

namespace krait::http {

class Connection;

/// What all connections of a server share. Outlives them: every connection is closed before the server ends.
struct ServerCore final {
  Options options;
  Handler handler;
  AccessLog access_log;
  std::shared_ptr<std::atomic<bool>> draining = std::make_shared<std::atomic<bool>>(false);
  std::atomic<int64_t> buffered_body_bytes{0};
  // Shared, since a handler's Responder may outlive this.
  std::shared_ptr<std::atomic<int64_t>> unsent_bytes = std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t> refused_connections{0};

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable request_ended;
  std::set<std::shared_ptr<Connection>> connections;
  int64_t open_requests = 0;
  int64_t unread_requests = 0;
  int refused_open = 0;  // of `connections`: over the limit, being told so
  bool stopped = false;  // no connection may be added any more
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Time = boost::asio::steady_timer::time_point;

  Connection(std::shared_ptr<ServerCore> core, boost::asio::io_context& context, boost::asio::ip::tcp::socket socket,
             bool refused);

  // Each may be called from any thread; the work is done on the strand.
  void start();
  /// Ends it now if no request has begun. What the kernel has already taken in counts as begun.
  void end_if_idle();
  /// The same; and a request that is not here as a whole is answered with 503.
  void drain();
  /// Ends it now.
  void stop();

  bool refused() const { return refused_; }

 private:
  /// Every turn on the strand. What a turn throws (memory is short) costs this connection, and no other.
  template <class Turn>
  void guard(Turn turn) {
    if (phase_ == Phase::kClosed) return;
    try {
      turn();
    } catch (const std::exception& e) {
      log_error("http: a connection failed: {}", e.what());
      close();
    }
  }
  void run_refusal();
  void wait_readable();
  void on_readable();
  /// Reads once. False: nothing to read now, or the connection ended.
  bool read_once();
  void on_peer_done();
  void process();
  void take_bytes();
  bool charge_body();
  void release_body();
  void count_unread();
  void begin_request();
  void begin_failure();
  void open_exchange(std::string request_id, bool head, bool http_1_0, bool keep_alive);
  void flush();
  bool write_some();
  void finish_exchange();
  void linger();
  void log_access(bool complete);
  void close();

  bool may_read() const;
  std::string_view unread() const { return std::string_view(in_).substr(in_used_); }
  Time deadline() const;
  void arm_timer();
  void on_timer();
  void on_deadline();
  bool peer_closed() const;

  enum class Phase : uint8_t {
    kReading,    // a request, or waiting for one
    kAnswering,  // exchange_ is set
    kLingering,  // the last answer has left; what still comes is thrown away, so that the client can read it
    kClosed,
  };

  const std::shared_ptr<ServerCore> core_;
  const bool refused_;
  Strand strand_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::string peer_;

  Phase phase_ = Phase::kReading;
  RequestReader reader_;
  std::string in_;  // bytes read; those before in_used_ are done with
  size_t in_used_ = 0;
  bool read_waiting_ = false;
  bool write_waiting_ = false;
  bool peer_done_ = false;      // the peer sends no more
  bool discard_input_ = false;  // after a failure, nothing that follows can be understood
  bool served_any_ = false;
  bool processing_ = false;
  bool unread_ = false;  // counts among the server's unread_requests
  int64_t charged_body_bytes_ = 0;

  std::shared_ptr<Exchange> exchange_;
  AccessRecord record_;
  Time request_begin_;
  std::deque<std::string> out_;  // pulled from the exchange, not yet taken by the socket
  size_t out_used_ = 0;          // of out_.front()

  Time phase_begin_;         // of what the present deadline of reading or lingering counts from
  Time last_progress_;       // the socket took enough or all, or had nothing to take
  int64_t taken_bytes_ = 0;  // since then
  bool timer_waiting_ = false;
  Time timer_expiry_;
};

}  // namespace krait::http
