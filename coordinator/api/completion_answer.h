// Where the news of a completion or a chat become an HTTP answer: whole, or as server-sent events.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "coordinator/api/api.h"
#include "coordinator/api/choice_form.h"
#include "coordinator/requests/generation.h"

namespace krait::api {

/// One request's answer. It lives as long as the cluster or the client's connection knows of it. News come from the
/// core's thread, the client's going from an http thread, comments from the ticker's.
class CompletionAnswer final : public requests::GenerationSink, public std::enable_shared_from_this<CompletionAnswer> {
 public:
  CompletionAnswer(Api& api, CompletionRequest request, const http::Request& exchange, ResponderPtr responder);

  /// Submits the request; from then on the answer goes its way by itself.
  void start();

  void on_chunk(requests::OutputChunk chunk) override;
  void on_error(const Error& error, uint32_t retry_after_s) override;

 private:
  std::string opening() const;
  std::string usage() const;
  http::Headers headers() const;
  void write(std::string bytes, bool bulk = false);
  void send(std::string_view event, bool bulk = false);
  void send_news(size_t sequence);
  bool too_large();
  void refuse(const Error& error, uint32_t retry_after_s = 0);
  void close();
  void accept(requests::OutputChunk chunk);
  void count(const requests::OutputChunk& chunk);
  void finish();
  void respond_whole();
  void client_left();
  bool keep_alive();

  Api& api_;
  const CompletionRequest request_;
  const ResponderPtr responder_;
  const std::string id_;
  const std::string http_request_id_;
  const std::string client_;
  const int64_t created_s_;
  const std::string head_;  // what every JSON object of this answer begins with

  std::mutex mutex_;
  requests::RequestId submitted_ = 0;  // 0: not yet
  bool over_ = false;                  // the answer is complete
  bool streaming_ = false;             // the head of a stream is out
  int64_t last_sent_ns_ = 0;           // of a stream, by the steady clock
  std::string fingerprint_;            // of the group that took a sequence on last
  std::vector<std::unique_ptr<ChoiceForm>> choices_;
  std::vector<bool> accepted_;  // sequences that a group has taken on
  size_t open_sequences_ = 0;
  size_t held_bytes_ = 0;  // of choices_
  FairRoom::Hold room_;    // for them, where the answer comes whole
  uint64_t prompt_tokens_ = 0;
  uint64_t completion_tokens_ = 0;
  uint64_t cached_tokens_ = 0;
};

}  // namespace krait::api
