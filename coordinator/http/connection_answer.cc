// How a connection answers: one exchange after the other, written as the socket takes it.
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "coordinator/http/connection.h"
#include "coordinator/http/error_body.h"
#include "coordinator/http/request_id.h"

namespace krait::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Time = Connection::Time;

constexpr size_t kBuffersPerWrite = 16;
constexpr int kWritesPerTurn = 16;  // then other connections of this thread get theirs

Time now() {
  return asio::steady_timer::clock_type::now();
}

int64_t ns_since(Time from) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now() - from).count();
}

const Headers& json_headers() {
  static const Headers headers{{"Content-Type", "application/json"}};
  return headers;
}

}  // namespace

void Connection::open_exchange(std::string request_id, bool head, bool http_1_0, bool keep_alive) {
  Exchange::Context context{.request_id = request_id,
                            .head = head,
                            .http_1_0 = http_1_0,
                            .keep_alive = keep_alive,
                            .max_backlog_bytes = core_->options.max_stream_backlog_bytes,
                            .max_unsent_bytes = core_->options.max_unsent_bytes,
                            .unsent_bytes = core_->unsent_bytes,
                            .draining = core_->draining};
  record_ = AccessRecord{.method = std::string(reader_.method().substr(0, limits::kMaxQuotedBytes)),
                         .path = std::string(reader_.path().substr(0, limits::kMaxQuotedBytes)),
                         .request_id = std::move(request_id),
                         .peer = peer_};
  // The exchange drops this when it is closed, and that is before the server's threads end.
  exchange_ = std::make_shared<Exchange>(std::move(context), [self = shared_from_this()] {
    asio::post(self->strand_, [self] {
      self->guard([&] {
        if (self->phase_ != Phase::kAnswering) return;  // A late call from an answer that has left.
        self->exchange_->answer_wake() ? self->flush() : self->close();
      });
    });
  });
  phase_ = Phase::kAnswering;
  last_progress_ = now();
  const std::lock_guard lock(core_->mutex);
  ++core_->open_requests;
  if (!discard_input_ && std::exchange(unread_, false)) --core_->unread_requests;
}

void Connection::begin_request() {
  open_exchange(request_id_from(reader_.client_request_id()), reader_.method() == "HEAD", reader_.http_1_0(),
                reader_.keep_alive());
  Request request = reader_.take();
  release_body();
  served_any_ = true;
  if (in_.empty()) in_.shrink_to_fit();  // A waiting connection holds nothing.
  request.peer = peer_;
  request.request_id = exchange_->request_id();
  // The handle's end is the handler's last word: nobody waits for an answer that nobody owes any more.
  std::shared_ptr<Exchange> exchange = exchange_;
  std::shared_ptr<Responder> handle(exchange.get(), [exchange](Responder*) { exchange->abandon(); });
  try {
    core_->handler(std::move(request), handle);
  } catch (const std::exception& e) {
    log_error("http: the handler of request {} threw: {}", exchange->request_id(), e.what());
    handle->respond(500, json_headers(), error_body({Errc::kInternal, "The server failed on this request.", ""}));
  }
}

void Connection::begin_failure() {
  const ReadFailure& failure = reader_.failure();
  discard_input_ = true;
  in_.clear();
  in_used_ = 0;
  release_body();
  open_exchange(request_id_from(reader_.client_request_id()), reader_.method() == "HEAD", false, false);
  Headers headers = json_headers();
  if (failure.status == 503) headers.add("Retry-After", "1");
  exchange_->respond(failure.status, std::move(headers), error_body(failure.error));
}

void Connection::flush() {
  for (int writes = 0; phase_ != Phase::kClosed && !write_waiting_; ++writes) {
    const bool finished = exchange_ && exchange_->pull(out_);
    if (out_.empty()) {
      if (finished) finish_exchange();
      break;
    }
    if (writes == kWritesPerTurn) {
      asio::post(strand_, [self = shared_from_this()] { self->guard([&] { self->flush(); }); });
      break;
    }
    if (!write_some()) break;
  }
  if (phase_ == Phase::kClosed) return;
  // A finished answer makes room for the next request, which may have been read already.
  if (phase_ == Phase::kReading && !processing_) {
    process();
    wait_readable();
  }
  arm_timer();
}

// False: the socket takes nothing now, or the connection ended.
bool Connection::write_some() {
  std::vector<asio::const_buffer> buffers;
  for (const std::string& part : out_) {
    const size_t skip = buffers.empty() ? out_used_ : 0;
    buffers.emplace_back(part.data() + skip, part.size() - skip);
    if (buffers.size() == kBuffersPerWrite) break;
  }
  ErrorCode error;
  const size_t bytes = socket_.write_some(buffers, error);
  if (error == asio::error::would_block || error == asio::error::interrupted) {
    write_waiting_ = true;
    socket_.async_wait(tcp::socket::wait_write, asio::bind_executor(strand_, [self = shared_from_this()](ErrorCode e) {
                         self->write_waiting_ = false;
                         self->guard([&] { e ? self->close() : self->flush(); });
                       }));
    return false;
  }
  if (error) {
    close();
    return false;
  }
  out_used_ += bytes;
  while (!out_.empty() && out_used_ >= out_.front().size()) {
    out_used_ -= out_.front().size();
    out_.pop_front();
  }
  // A trickle holds as much as a stall does.
  taken_bytes_ += static_cast<int64_t>(bytes);
  if (out_.empty() || taken_bytes_ >= limits::kLeastProgressBytes) {
    last_progress_ = now();
    taken_bytes_ = 0;
  }
  if (exchange_) exchange_->sent(static_cast<int64_t>(bytes));
  return true;
}

void Connection::finish_exchange() {
  log_access(true);
  const bool keep = exchange_->keeps_connection() && !discard_input_ && !core_->draining->load();
  exchange_->close();
  exchange_.reset();
  phase_begin_ = now();
  if (!keep) return linger();
  phase_ = Phase::kReading;
}

// Closing at once would make the kernel answer what the client still sends with a reset, and a reset may destroy the
// answer before the client has read it.
void Connection::linger() {
  if (peer_done_) return close();
  phase_ = Phase::kLingering;
  discard_input_ = true;
  in_.clear();
  in_used_ = 0;
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  wait_readable();
}

void Connection::log_access(bool complete) {
  record_.complete = complete;
  record_.status = exchange_->status() == 0 ? errc_info(Errc::kCancelled).http_status : exchange_->status();
  record_.body_bytes = exchange_->body_bytes();
  record_.duration_ns = ns_since(request_begin_);
  if (core_->access_log && !refused_) {
    try {
      core_->access_log(record_);
    } catch (const std::exception& e) {
      log_error("http: the access log threw: {}", e.what());
    }
  }
  const std::lock_guard lock(core_->mutex);
  --core_->open_requests;
  core_->request_ended.notify_all();
}

}  // namespace krait::http
