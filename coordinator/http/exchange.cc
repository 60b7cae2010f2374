#include "coordinator/http/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "coordinator/http/error_body.h"
#include "coordinator/http/response_head.h"

namespace krait::http {
namespace {

constexpr size_t kJoinBytes = 16 * kKiB;  // smaller parts are joined, so that a token does not cost a buffer

void call(const std::function<void()>& callback) {
  if (!callback) return;
  try {
    callback();
  } catch (const std::exception& e) {
    log_error("http: an on_close callback threw: {}", e.what());
  }
}

}  // namespace

Exchange::Exchange(Context context, std::function<void()> wake)
    : context_(std::move(context)), wake_(std::move(wake)) {}

Exchange::~Exchange() = default;

void Exchange::wake() {
  if (wake_pending_ || !wake_) return;
  wake_pending_ = true;
  wake_();
}

void Exchange::push(std::string bytes) {
  if (bytes.empty()) return;
  unsent_bytes_ += static_cast<int64_t>(bytes.size());
  *context_.unsent_bytes += static_cast<int64_t>(bytes.size());
  if (!queue_.empty() && queue_.back().size() + bytes.size() <= kJoinBytes) {
    queue_.back() += bytes;
  } else {
    queue_.push_back(std::move(bytes));
  }
}

void Exchange::respond(int status, Headers headers, std::string body) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) return;
  const auto size = static_cast<int64_t>(body.size());
  if (size > limits::kSmallAnswerBytes && *context_.unsent_bytes + size > context_.max_unsent_bytes) {
    status = 429;
    headers = {{"Content-Type", "application/json"}, {"Retry-After", "1"}};
    body = error_body({Errc::kOverloaded, "Too many large answers wait for their readers; try again later.", ""});
  }
  status_ = status;
  keeps_connection_ = context_.keep_alive && !context_.draining->load();
  push(response_head(status, headers,
                     {.content_length = static_cast<int64_t>(body.size()),
                      .keep_alive = keeps_connection_,
                      .http_1_0 = context_.http_1_0,
                      .request_id = context_.request_id}));
  if (!context_.head && has_body(status)) {
    body_bytes_ = static_cast<int64_t>(body.size());
    push(std::move(body));
  }
  state_ = State::kFinished;
  wake();
}

void Exchange::begin_stream(int status, Headers headers) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) return;
  status_ = status;
  sends_body_ = !context_.head && has_body(status);
  chunked_ = !context_.http_1_0 && has_body(status);
  keeps_connection_ = context_.keep_alive && !context_.draining->load() && (chunked_ || !sends_body_);
  push(response_head(status, headers,
                     {.chunked = chunked_,
                      .keep_alive = keeps_connection_,
                      .http_1_0 = context_.http_1_0,
                      .request_id = context_.request_id}));
  state_ = State::kStreaming;
  wake();
}

bool Exchange::write(std::string chunk) {
  return write_part(std::move(chunk), false);
}

bool Exchange::write_bulk(std::string chunk) {
  return write_part(std::move(chunk), true);
}

bool Exchange::write_part(std::string chunk, bool bulk) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming) return false;
  if (chunk.empty() || !sends_body_) return true;
  const bool behind = !bulk && unsent_bytes_ - unsent_bulk_bytes_ > context_.max_backlog_bytes;
  if (behind || *context_.unsent_bytes > context_.max_unsent_bytes) {
    state_ = State::kCut;
    wake();
    return false;
  }
  body_bytes_ += static_cast<int64_t>(chunk.size());
  if (chunked_) {
    std::string head = fmt::format("{:x}\r\n", chunk.size());
    chunk.insert(0, head);
    chunk += "\r\n";
  }
  if (bulk) {
    const int64_t begin = sent_bytes_ + unsent_bytes_;
    const int64_t end = begin + static_cast<int64_t>(chunk.size());
    if (bulk_.empty() || bulk_.back().second != begin) bulk_.emplace_back(begin, begin);
    bulk_.back().second = end;
    unsent_bulk_bytes_ += end - begin;
  }
  push(std::move(chunk));
  wake();
  return true;
}

void Exchange::end() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming) return;
  if (chunked_ && sends_body_) push("0\r\n\r\n");
  state_ = State::kFinished;
  wake();
}

void Exchange::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kFinished) return;
    if (state_ != State::kClosed) {
      std::swap(on_close_, callback);  // An older one is destroyed without the lock.
      return;
    }
  }
  call(callback);
}

bool Exchange::is_open() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kOpen || state_ == State::kStreaming;
}

void Exchange::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kStreaming) {
      state_ = State::kCut;
      wake();
    }
    if (state_ != State::kOpen) return;
  }
  log_error("http: request {} was dropped without an answer", context_.request_id);
  respond(500, {{"Content-Type", "application/json"}},
          error_body({Errc::kInternal, "The server gave this request up without an answer.", ""}));
}

bool Exchange::answer_wake() {
  const std::lock_guard lock(mutex_);
  wake_pending_ = false;
  return state_ != State::kCut;
}

bool Exchange::pull(std::deque<std::string>& to) {
  const std::lock_guard lock(mutex_);
  for (std::string& bytes : queue_)
    to.push_back(std::move(bytes));
  queue_.clear();
  return state_ == State::kFinished;
}

void Exchange::sent(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  take_off(bytes);
}

void Exchange::take_off(int64_t bytes) {
  unsent_bytes_ -= bytes;
  *context_.unsent_bytes -= bytes;
  sent_bytes_ += bytes;
  while (!bulk_.empty() && bulk_.front().first < sent_bytes_) {
    auto& [begin, end] = bulk_.front();
    const int64_t gone = std::min(end, sent_bytes_) - begin;
    unsent_bulk_bytes_ -= gone;
    begin += gone;
    if (begin < end) break;
    bulk_.pop_front();
  }
}

bool Exchange::finished() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kFinished;
}

void Exchange::close() {
  // Taken out under the lock, destroyed without it: what they hold may call back into this object.
  std::function<void()> wake;
  std::function<void()> callback;
  std::deque<std::string> unsent;
  bool cut_short = false;
  {
    const std::lock_guard lock(mutex_);
    wake.swap(wake_);
    callback.swap(on_close_);
    unsent.swap(queue_);
    take_off(unsent_bytes_);
    cut_short = state_ != State::kFinished && state_ != State::kClosed;
    if (cut_short) state_ = State::kClosed;
  }
  if (cut_short) call(callback);
}

bool Exchange::keeps_connection() const {
  const std::lock_guard lock(mutex_);
  return keeps_connection_;
}

int Exchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

int64_t Exchange::body_bytes() const {
  const std::lock_guard lock(mutex_);
  return body_bytes_;
}

}  // namespace krait::http
