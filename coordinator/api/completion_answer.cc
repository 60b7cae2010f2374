#include "coordinator/api/completion_answer.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "coordinator/api/json_body.h"
#include "coordinator/http/error_body.h"
#include "coordinator/http/sse.h"

namespace krait::api {
namespace {

using metrics::CounterId;
using nlohmann::ordered_json;

/// The client's address without its port: who it is for fairness.
std::string client_of(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace

CompletionAnswer::CompletionAnswer(Api& api, CompletionRequest request, const http::Request& exchange,
                                   ResponderPtr responder)
    : api_(api),
      request_(std::move(request)),
      responder_(std::move(responder)),
      id_(fmt::format("cmpl-{:016x}{:016x}", random_u64(), random_u64())),
      http_request_id_(exchange.request_id),
      client_(client_of(exchange.peer)),
      created_s_(unix_seconds()),
      last_sent_ns_(SteadyClock().now_ns()),
      fingerprint_(api.system_fingerprint()) {
  open_sequences_ = request_.prompts.size() * request_.n;
  accepted_.resize(open_sequences_);
  for (size_t i = 0; i < open_sequences_; ++i)
    choices_.emplace_back(request_, api_.model(), i);
  for (const Prompt& prompt : request_.prompts)
    prompt_tokens_ += prompt.tokens.size();
}

void CompletionAnswer::start() {
  requests::GenerationSpec spec;
  spec.request_id = http_request_id_;
  spec.model = request_.model;
  spec.client = client_;
  spec.timeout_ms = api_.options().request_timeout_ms;
  spec.sequences = request_.sequences();
  const auto self = shared_from_this();
  const auto id = api_.cluster().submit(std::move(spec), self);
  {
    const std::scoped_lock lock(mutex_);
    submitted_ = id;
  }
  // Only now, since what is to be cancelled has a number now. A client that left before is told of at once, here.
  responder_->on_close([self] { self->client_left(); });
  if (request_.stream) {
    api_.every_tick([weak = weak_from_this()] {
      const auto answer = weak.lock();
      return answer != nullptr && answer->keep_alive();
    });
  }
}

void CompletionAnswer::client_left() {
  requests::RequestId id = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (over_) return;
    over_ = true;
    id = submitted_;
  }
  api_.registry().counter(CounterId::kStreamCancels, {"client_gone"}).add();
  api_.cluster().cancel(id);
}

bool CompletionAnswer::keep_alive() {
  const std::scoped_lock lock(mutex_);
  if (over_) return false;
  if (SteadyClock().now_ns() - last_sent_ns_ >= api_.options().keep_alive_ns) write(http::sse_comment());
  return true;
}

http::Headers CompletionAnswer::headers() const {
  http::Headers headers{{"Content-Type", "application/json"}};
  if (request_.stream) headers = http::sse_headers();
  add_unknown_fields(headers, request_.unknown_fields);
  return headers;
}

/// The head goes out with the first bytes, so that until then a refusal can have a status of its own.
void CompletionAnswer::write(std::string bytes) {
  if (!streaming_) responder_->begin_stream(200, headers());
  streaming_ = true;
  last_sent_ns_ = SteadyClock().now_ns();
  responder_->write(std::move(bytes));
}

ordered_json CompletionAnswer::envelope() const {
  ordered_json body;
  body["id"] = id_;
  body["object"] = "text_completion";
  body["created"] = created_s_;
  body["model"] = request_.model;
  body["system_fingerprint"] = fingerprint_;
  body["choices"] = ordered_json::array();
  return body;
}

ordered_json CompletionAnswer::usage() const {
  ordered_json usage;
  usage["prompt_tokens"] = prompt_tokens_;
  usage["completion_tokens"] = completion_tokens_;
  usage["total_tokens"] = prompt_tokens_ + completion_tokens_;
  usage["prompt_tokens_details"]["cached_tokens"] = cached_tokens_;
  return usage;
}

void CompletionAnswer::send(const ordered_json& event) {
  write(http::sse_event(dump(event)));
}

void CompletionAnswer::send_news(size_t sequence) {
  if (!choices_[sequence].has_news()) return;
  ordered_json event = envelope();
  event["choices"].push_back(choices_[sequence].take());
  if (request_.include_usage) event["usage"] = nullptr;
  send(event);
}

void CompletionAnswer::count(const requests::OutputChunk& chunk) {
  if (!accepted_.at(chunk.sequence)) {
    accepted_[chunk.sequence] = true;
    const auto& prompt = request_.prompts.at(chunk.sequence / request_.n);
    api_.registry().counter(CounterId::kPromptTokens).add(static_cast<double>(prompt.tokens.size()));
  }
  completion_tokens_ += chunk.tokens.size();
  api_.registry().counter(CounterId::kGenerationTokens).add(static_cast<double>(chunk.tokens.size()));
  if (!chunk.end) return;
  --open_sequences_;
  // A prompt counts once, whatever the number of its choices.
  if (chunk.sequence % request_.n == 0) cached_tokens_ += chunk.end->cached_tokens;
}

void CompletionAnswer::on_chunk(requests::OutputChunk chunk) {
  const std::scoped_lock lock(mutex_);
  if (over_) return;
  choices_.at(chunk.sequence).add(chunk);
  count(chunk);
  if (request_.stream) send_news(chunk.sequence);
  if (open_sequences_ > 0) return;
  over_ = true;
  if (request_.stream) {
    finish();
    return;
  }
  // A large answer is built elsewhere: the core's thread has other requests to serve.
  if (!api_.executor().post([self = shared_from_this()] { self->finish(); })) finish();
}

void CompletionAnswer::finish() {
  if (!request_.stream) {
    ordered_json body = envelope();
    for (ChoiceWriter& choice : choices_)
      body["choices"].push_back(choice.take());
    body["usage"] = usage();
    responder_->respond(200, headers(), dump(body));
    return;
  }
  if (request_.include_usage) {
    ordered_json event = envelope();
    event["usage"] = usage();
    send(event);
  }
  write(http::sse_event("[DONE]"));
  responder_->end();
}

void CompletionAnswer::on_error(const Error& error, uint32_t retry_after_s) {
  const std::scoped_lock lock(mutex_);
  if (over_) return;
  over_ = true;
  if (!streaming_) {
    respond_error(api_, *responder_, error, retry_after_s);
    return;
  }
  // The status has gone out already, so the error travels as an event of its own.
  api_.registry().counter(CounterId::kErrors, {errc_info(error.code).label}).add();
  write(http::sse_event(http::error_body(error)));
  write(http::sse_event("[DONE]"));
  responder_->end();
}

}  // namespace krait::api
