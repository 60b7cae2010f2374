#include "coordinator/http/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace krait::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr size_t kReadBytes = 64 * kKiB;

using Time = Connection::Time;

Time now() {
  return asio::steady_timer::clock_type::now();
}

Time after(Time from, int64_t ns) {
  return from + std::chrono::nanoseconds(ns);
}

std::string show(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), address, endpoint.port());
}

void set_option(int socket, int level, int name, int value) {
  // A socket that refuses an option still works, only with less protection.
  (void)setsockopt(socket, level, name, &value, sizeof(value));
}

void set_options(tcp::socket& socket, const Options& options) {
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  const int handle = socket.native_handle();
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options.send_buffer_bytes));
  // What the kernel holds counts too: it gives a peer up that takes none of it for so long.
  set_option(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ceil_div(options.stall_timeout_ns, kMs)));
  // A peer that vanished without a word, while there is nothing to send, is found by probes.
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(handle, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(handle, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(handle, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

ReaderLimits reader_limits(const Options& options) {
  return {.max_header_bytes = options.max_header_bytes, .max_body_bytes = options.max_body_bytes};
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, asio::io_context& context, tcp::socket socket, bool refused)
    : core_(std::move(core)),
      refused_(refused),
      strand_(asio::make_strand(context)),
      socket_(std::move(socket)),
      timer_(context),
      reader_(reader_limits(core_->options)),
      request_begin_(now()),
      phase_begin_(request_begin_),
      last_progress_(request_begin_) {
  ErrorCode error;
  const tcp::endpoint remote = socket_.remote_endpoint(error);
  if (!error) peer_ = show(remote);
}

void Connection::start() {
  asio::post(strand_, [self = shared_from_this()] {
    self->guard([&] {
      set_options(self->socket_, self->core_->options);
      if (self->refused_) self->run_refusal();
      self->on_readable();
    });
  });
}

void Connection::end_if_idle() {
  asio::post(strand_, [self = shared_from_this()] {
    self->guard([&] {
      self->on_readable();
      if (self->phase_ == Phase::kReading && self->reader_.state() == RequestReader::State::kStart) self->close();
    });
  });
}

void Connection::drain() {
  end_if_idle();
  asio::post(strand_, [self = shared_from_this()] {
    self->guard([&] {
      if (self->phase_ != Phase::kReading) return;
      self->reader_.fail(503, Errc::kUnavailable, "The server is shutting down; the request was not read.");
      self->process();
    });
  });
}

void Connection::stop() {
  asio::post(strand_, [self = shared_from_this()] { self->close(); });
}

void Connection::run_refusal() {
  reader_.fail(503, Errc::kUnavailable, "The server has all the connections it can hold; try again.");
  begin_failure();
  flush();
}

// ---- reading -------------------------------------------------------------------------------------------------------

bool Connection::may_read() const {
  if (phase_ == Phase::kClosed || peer_done_) return false;
  return phase_ != Phase::kAnswering || discard_input_ ||
         std::cmp_less(in_.size() - in_used_, limits::kMaxPipelinedBytes);
}

// A read is kept waiting also while a request is answered: that is how a client's leaving is noticed at once.
void Connection::wait_readable() {
  if (read_waiting_ || !may_read()) return;
  read_waiting_ = true;
  socket_.async_wait(tcp::socket::wait_read, asio::bind_executor(strand_, [self = shared_from_this()](ErrorCode error) {
                       self->read_waiting_ = false;
                       self->guard([&] { error ? self->close() : self->on_readable(); });
                     }));
}

void Connection::on_readable() {
  // A few reads a turn: a large body comes quickly, and no connection keeps a thread for itself.
  for (int reads = 0; reads < 4 && may_read(); ++reads) {
    if (!read_once()) break;
    process();
  }
  wait_readable();
  arm_timer();
}

bool Connection::read_once() {
  // One buffer a thread: an idle connection holds none.
  thread_local std::string buffer(kReadBytes, '\0');
  const bool ahead = phase_ == Phase::kAnswering && !discard_input_;
  const size_t room = ahead ? static_cast<size_t>(limits::kMaxPipelinedBytes) - unread().size() : kReadBytes;
  ErrorCode error;
  const size_t bytes = socket_.read_some(asio::buffer(buffer, std::min(room, kReadBytes)), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) return false;
  if (error == asio::error::eof) {
    on_peer_done();
    return false;
  }
  if (error) {
    close();
    return false;
  }
  if (!discard_input_) {
    in_.erase(0, std::exchange(in_used_, 0));
    in_.append(buffer, 0, bytes);
  }
  return true;
}

// A client that shuts its sending side down looks the same as one that left. It is taken to have left, since a slot
// must be free at once; an answer that is already complete still goes out.
void Connection::on_peer_done() {
  peer_done_ = true;
  if (phase_ == Phase::kAnswering && exchange_->finished()) return flush();
  if (phase_ == Phase::kReading && reader_.state() != RequestReader::State::kStart) {
    reader_.fail(400, Errc::kInvalidArgument, "The connection ended before the request was complete.");
    return process();
  }
  close();
}

// Goes as far as the bytes at hand allow: one request after the other, each answered before the next is looked at.
void Connection::process() {
  if (processing_) return;
  processing_ = true;
  while (phase_ == Phase::kReading) {
    take_bytes();
    const RequestReader::State state = reader_.state();
    if (state == RequestReader::State::kComplete) {
      begin_request();
    } else if (state == RequestReader::State::kFailed) {
      begin_failure();
    } else {
      break;
    }
    if (phase_ == Phase::kAnswering) flush();
    if (phase_ == Phase::kAnswering && peer_done_ && !exchange_->finished()) close();
  }
  if (phase_ == Phase::kReading && peer_done_) close();
  processing_ = false;
}

void Connection::take_bytes() {
  if (discard_input_) return;
  const RequestReader::State before = reader_.state();
  if (before == RequestReader::State::kFailed) return;
  in_used_ += reader_.feed(unread());
  if (in_used_ == in_.size()) {
    in_.clear();
    in_used_ = 0;
  }
  if (reader_.state() != before) {
    phase_begin_ = now();
    if (before == RequestReader::State::kStart) request_begin_ = phase_begin_;
  }
  if (reader_.state() == RequestReader::State::kFailed || !charge_body()) return;
  if (reader_.state() != RequestReader::State::kStart && reader_.state() != RequestReader::State::kComplete)
    count_unread();
  if (reader_.take_continue()) {
    out_.emplace_back("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
}

// So that a server that ends waits for them. A request that comes in one piece is never counted, and costs no lock
// here; one that is refused halfway counts until the connection ends, since its client may still send.
void Connection::count_unread() {
  if (std::exchange(unread_, true)) return;
  const std::lock_guard lock(core_->mutex);
  ++core_->unread_requests;
}

// Bodies count while they are read. Each is bounded, and so is their sum.
bool Connection::charge_body() {
  const int64_t more = reader_.body_bytes() - charged_body_bytes_;
  charged_body_bytes_ += more;
  if (core_->buffered_body_bytes.fetch_add(more) + more <= core_->options.max_buffered_body_bytes) return true;
  reader_.fail(503, Errc::kUnavailable, "The server is reading as many request bodies as it can hold; try again.");
  return false;
}

void Connection::release_body() {
  core_->buffered_body_bytes.fetch_sub(std::exchange(charged_body_bytes_, 0));
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  phase_ = Phase::kClosed;
  ErrorCode ignored;
  socket_.close(ignored);
  timer_.cancel();
  release_body();
  if (exchange_) {
    exchange_->close();
    log_access(false);
    exchange_.reset();
  }
  out_.clear();
  in_.clear();
  in_used_ = 0;
  const std::lock_guard lock(core_->mutex);
  if (core_->connections.erase(self) > 0 && refused_) --core_->refused_open;
  if (std::exchange(unread_, false)) --core_->unread_requests;
  core_->request_ended.notify_all();
}

// ---- the clock -----------------------------------------------------------------------------------------------------

Time Connection::deadline() const {
  const Options& options = core_->options;
  Time end = Time::max();
  if (write_waiting_) end = after(last_progress_, options.stall_timeout_ns);
  switch (phase_) {
    case Phase::kReading:
      switch (reader_.state()) {
        case RequestReader::State::kStart:
          // A connection that has asked for nothing yet is held no longer than one that dawdles over its headers.
          return std::min(end, after(phase_begin_, served_any_ ? options.idle_timeout_ns : options.header_timeout_ns));
        case RequestReader::State::kHeader:
          return std::min(end, after(phase_begin_, options.header_timeout_ns));
        default:
          return std::min(end, after(phase_begin_, options.body_timeout_ns));
      }
    case Phase::kAnswering:
      return may_read() || peer_done_ ? end : std::min(end, after(now(), limits::kPeerPollNs));
    case Phase::kLingering:
      return std::min(end, after(phase_begin_, limits::kLingerNs));
    case Phase::kClosed:
      break;
  }
  return end;
}

// One timer, moved only when it would ring too late: most deadlines pass unused, and moving it costs a lock.
void Connection::arm_timer() {
  const Time end = deadline();
  if (phase_ == Phase::kClosed || end == Time::max() || (timer_waiting_ && timer_expiry_ <= end)) return;
  timer_waiting_ = true;
  timer_expiry_ = end;
  timer_.expires_at(end);
  timer_.async_wait(asio::bind_executor(strand_, [self = shared_from_this(), end](ErrorCode) {
    // A timer that was moved calls its old handler too; only the newest counts.
    if (self->phase_ == Phase::kClosed || self->timer_expiry_ != end) return;
    self->timer_waiting_ = false;
    self->guard([&] { self->on_timer(); });
  }));
}

void Connection::on_timer() {
  if (phase_ == Phase::kAnswering && !may_read() && !peer_done_ && peer_closed()) on_peer_done();
  if (phase_ != Phase::kClosed && now() >= deadline()) on_deadline();
  arm_timer();
}

void Connection::on_deadline() {
  const RequestReader::State state = reader_.state();
  if (write_waiting_ || phase_ != Phase::kReading || state == RequestReader::State::kStart) return close();
  const bool in_header = state == RequestReader::State::kHeader;
  reader_.fail(408, Errc::kRequestTimeout,
               fmt::format("The {} of the request took too long.", in_header ? "header" : "body"));
  process();
}

// With more requests pipelined than are read ahead, the end of the stream hides behind them; the kernel knows of it.
bool Connection::peer_closed() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  const int handle = const_cast<tcp::socket&>(socket_).native_handle();
  if (getsockopt(handle, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

}  // namespace krait::http
