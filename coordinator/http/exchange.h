// One request's answer on its way to the socket: the Responder of a connection. It knows no sockets.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "coordinator/http/responder.h"

namespace krait::http {

/// The handler's threads push bytes in by the Responder's methods; the connection pulls them out. A lock guards all of
/// it, and no callback runs under the lock but `wake`.
class Exchange final : public Responder {
 public:
  struct Context {
    std::string request_id;
    bool head = false;        // answer a HEAD: no body leaves
    bool http_1_0 = false;    // no chunks
    bool keep_alive = false;  // the client wants the connection to stay
    int64_t max_backlog_bytes = 0;
    int64_t max_unsent_bytes = 0;                        // of all answers
    std::shared_ptr<std::atomic<int64_t>> unsent_bytes;  // of all answers
    std::shared_ptr<const std::atomic<bool>> draining;   // when it holds, answers end their connection
  };

  /// `wake` tells the connection that there is something to pull; it is called under the lock, so it may only post.
  Exchange(Context context, std::function<void()> wake);
  ~Exchange() override;

  void respond(int status, Headers headers, std::string body) override;
  void begin_stream(int status, Headers headers) override;
  bool write(std::string chunk) override;
  bool write_bulk(std::string chunk) override;
  void end() override;
  void on_close(std::function<void()> callback) override;
  bool is_open() const override;

  /// The last reference of the handler is gone: an unanswered request gets a 500, a stream is cut.
  void abandon();

  // The connection's side.

  /// To be called once for each `wake`, before pull(). False: the connection must be cut (too far behind, abandoned).
  bool answer_wake();
  /// Appends what waits to be sent; true when that was the answer's last part.
  bool pull(std::deque<std::string>& to);
  /// The socket took `bytes`.
  void sent(int64_t bytes);
  /// The answer is complete (though not all of it may be pulled).
  bool finished() const;
  /// The connection has done with this answer, or is gone: then on_close is called. Nothing is woken afterwards.
  void close();

  const std::string& request_id() const { return context_.request_id; }
  bool keeps_connection() const;  // once finished
  int status() const;             // 0 before an answer began
  int64_t body_bytes() const;

 private:
  enum class State : uint8_t {
    kOpen,       // no answer yet
    kStreaming,  // begin_stream() was called
    kFinished,   // the answer is complete
    kCut,        // the connection is to be cut; it has not heard yet
    kClosed,     // the connection is gone before the answer was complete
  };

  bool write_part(std::string chunk, bool bulk);
  void push(std::string bytes);
  void take_off(int64_t bytes);
  void wake();

  const Context context_;
  mutable std::mutex mutex_;
  State state_ = State::kOpen;
  std::function<void()> wake_;
  std::function<void()> on_close_;
  std::deque<std::string> queue_;
  bool wake_pending_ = false;
  bool chunked_ = false;
  bool sends_body_ = true;
  bool keeps_connection_ = false;
  int status_ = 0;
  int64_t unsent_bytes_ = 0;
  int64_t sent_bytes_ = 0;
  // Where bulk lies in the stream of bytes, sent ones counted: [begin, end), apart from each other, in order.
  std::deque<std::pair<int64_t, int64_t>> bulk_;
  int64_t unsent_bulk_bytes_ = 0;
  int64_t body_bytes_ = 0;
};

}  // namespace krait::http
