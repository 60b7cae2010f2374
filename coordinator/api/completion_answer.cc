#include "coordinator/api/completion_answer.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "coordinator/api/chat_choice.h"
#include "coordinator/api/choice_writer.h"
#include "coordinator/api/json_body.h"
#include "coordinator/http/error_body.h"
#include "coordinator/http/sse.h"

namespace krait::api {
namespace {

using metrics::CounterId;
using nlohmann::ordered_json;

/// Without its closing brace: the rest is put behind it.
std::string head_of(const std::string& id, int64_t created_s, const CompletionRequest& request) {
  ordered_json head;
  head["id"] = id;
  head["object"] = !request.chat ? "text_completion" : request.stream ? "chat.completion.chunk" : "chat.completion";
  head["created"] = created_s;
  head["model"] = request.model;
  std::string text = dump(head);
  text.pop_back();
  return text;
}

std::unique_ptr<ChoiceForm> make_choice(const CompletionRequest& request, const ModelInfo& model, size_t index) {
  if (request.chat) return std::make_unique<ChatChoice>(request, model, index);
  return std::make_unique<ChoiceWriter>(request, model, index);
}

}  // namespace

CompletionAnswer::CompletionAnswer(Api& api, CompletionRequest request, const http::Request& exchange,
                                   ResponderPtr responder)
    : api_(api),
      request_(std::move(request)),
      responder_(std::move(responder)),
      id_(fmt::format("{}-{:016x}{:016x}", request_.chat ? "chatcmpl" : "cmpl", random_u64(), random_u64())),
      http_request_id_(exchange.request_id),
      client_(api.client_of(exchange)),
      created_s_(unix_seconds()),
      head_(head_of(id_, created_s_, request_)),
      last_sent_ns_(SteadyClock().now_ns()) {
  open_sequences_ = request_.prompts.size() * request_.n;
  accepted_.resize(open_sequences_);
  for (size_t i = 0; i < open_sequences_; ++i)
    held_bytes_ += choices_.emplace_back(make_choice(request_, api_.model(), i))->size();
  for (const Prompt& prompt : request_.prompts)
    prompt_tokens_ += prompt.tokens.size();
}

void CompletionAnswer::start() {
  if (!request_.stream) room_ = api_.answers_room().hold(client_);
  if (too_large()) return;
  requests::GenerationSpec spec = request_.generation();
  spec.request_id = http_request_id_;
  spec.client = client_;
  spec.timeout_ms = api_.options().request_timeout_ms;
  const auto self = shared_from_this();
  const auto id = api_.cluster().submit(std::move(spec), self);
  bool over = false;
  {
    const std::scoped_lock lock(mutex_);
    submitted_ = id;
    over = over_;
  }
  if (over) api_.cluster().cancel(id);  // what gave it up meanwhile could not name it
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
    close();
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
void CompletionAnswer::write(std::string bytes, bool bulk) {
  if (!streaming_) responder_->begin_stream(200, headers());
  streaming_ = true;
  last_sent_ns_ = SteadyClock().now_ns();
  if (bulk) {
    responder_->write_bulk(std::move(bytes));
  } else {
    responder_->write(std::move(bytes));
  }
}

std::string CompletionAnswer::opening() const {
  std::string out = head_ + R"(,"system_fingerprint":)";
  append_string(out, fingerprint_);
  return out + R"(,"choices":[)";
}

std::string CompletionAnswer::usage() const {
  ordered_json usage;
  usage["prompt_tokens"] = prompt_tokens_;
  usage["completion_tokens"] = completion_tokens_;
  usage["total_tokens"] = prompt_tokens_ + completion_tokens_;
  usage["prompt_tokens_details"]["cached_tokens"] = cached_tokens_;
  return dump(usage);
}

void CompletionAnswer::send(std::string_view event, bool bulk) {
  write(http::sse_event(event), bulk);
}

void CompletionAnswer::send_news(size_t sequence) {
  ChoiceForm& choice = *choices_[sequence];
  if (!choice.has_news()) return;
  const bool bulk = choice.tells_of_prompt();
  send(opening() + choice.take() + (request_.include_usage ? R"(],"usage":null})" : "]}"), bulk);
}

/// Nothing more is said, and nothing held.
void CompletionAnswer::close() {
  over_ = true;
  choices_.clear();
  room_ = {};
}

void CompletionAnswer::refuse(const Error& error, uint32_t retry_after_s) {
  close();
  respond_error(api_, *responder_, error, retry_after_s);
}

/// Whether what waits for an answer's end is more than one may have, or more than there is room for; then the request
/// is over.
bool CompletionAnswer::too_large() {
  if (request_.stream) return false;
  if (std::cmp_greater(held_bytes_, api_.options().max_answer_bytes)) {
    refuse({Errc::kInvalidArgument, "the answer is too large to be sent whole: ask for it with 'stream'", "stream"});
    return true;
  }
  if (room_.resize(static_cast<int64_t>(held_bytes_))) return false;
  refuse({Errc::kOverloaded, "too many whole answers are being put together; ask for it with 'stream' or later", ""},
         api_.cluster().retry_after_s());
  return true;
}

void CompletionAnswer::accept(requests::OutputChunk chunk) {
  fingerprint_ = std::move(chunk.numerics_id);
  if (accepted_.at(chunk.sequence)) return;
  accepted_[chunk.sequence] = true;
  const auto& prompt = request_.prompts.at(chunk.sequence / request_.n);
  api_.registry().counter(CounterId::kPromptTokens).add(static_cast<double>(prompt.tokens.size()));
}

void CompletionAnswer::count(const requests::OutputChunk& chunk) {
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
  if (!chunk.numerics_id.empty()) {
    accept(std::move(chunk));
    return;
  }
  ChoiceForm& choice = *choices_.at(chunk.sequence);
  held_bytes_ -= choice.size();
  choice.add(chunk);
  held_bytes_ += choice.size();
  count(chunk);
  if (too_large()) {
    api_.cluster().cancel(submitted_);
    return;
  }
  if (request_.stream) send_news(chunk.sequence);
  if (open_sequences_ > 0) return;
  over_ = true;
  if (request_.stream) {
    finish();
    return;
  }
  // A large answer is put together elsewhere: the core's thread has other requests to serve. A small one is done sooner
  // than it is handed over, and does not wait behind requests that come.
  const bool small = std::cmp_less_equal(held_bytes_, limits::kSmallAnswerBytes);
  if (small || !api_.executor().post(client_, [self = shared_from_this()] { self->respond_whole(); })) respond_whole();
}

void CompletionAnswer::respond_whole() {
  std::string body = opening();
  for (const auto& choice : choices_) {
    if (body.back() != '[') body += ',';
    body += choice->take();
  }
  body += R"(],"usage":)" + usage() + '}';
  close();
  responder_->respond(200, headers(), std::move(body));
}

void CompletionAnswer::finish() {
  if (request_.include_usage) send(opening() + R"(],"usage":)" + usage() + '}');
  write(http::sse_event("[DONE]"));
  responder_->end();
}

void CompletionAnswer::on_error(const Error& error, uint32_t retry_after_s) {
  const std::scoped_lock lock(mutex_);
  if (over_) return;
  if (!streaming_) {
    refuse(error, retry_after_s);
    return;
  }
  close();
  // The status has gone out already, so the error travels as an event of its own.
  api_.registry().counter(CounterId::kErrors, {errc_info(error.code).label}).add();
  write(http::sse_event(http::error_body(error)));
  write(http::sse_event("[DONE]"));
  responder_->end();
}

}  // namespace krait::api
