#include "coordinator/api/chat_choice.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "coordinator/api/choice_writer.h"

namespace krait::api {

void ChatChoice::append_entry(std::string& out, int32_t token, float logprob) const {
  out += R"({"token":)";
  append_string(out, token_string(model_, token));
  out += R"(,"logprob":)";
  append_number(out, logprob);
  // Part of a character has no text of its own: its bytes are here in any case.
  out += R"(,"bytes":)";
  JsonItems bytes;
  for (const char byte : model_.tokenizer->token_bytes(token))
    fmt::format_to(std::back_inserter(bytes.next()), "{}", static_cast<uint8_t>(byte));
  bytes.move_to(out);
}

void ChatChoice::add(const requests::OutputChunk& chunk) {
  text_ += chunk.text;
  for (const auto& token : chunk.tokens) {
    last_token_ = token.token;
    if (request_.return_token_ids) fmt::format_to(std::back_inserter(token_ids_.next()), "{}", token.token);
    if (!request_.logprobs) continue;
    std::string& out = logprobs_.next();
    append_entry(out, token.token, token.logprob);
    out += R"(,"top_logprobs":)";
    JsonItems top;
    for (const auto& alternative : token.top) {
      std::string& item = top.next();
      append_entry(item, alternative.token, alternative.logprob);
      item += '}';
    }
    top.move_to(out);
    out += '}';
  }
  if (chunk.end) end_ = chunk.end;
}

std::string ChatChoice::take() {
  std::string out = fmt::format(R"({{"index":{},"{}":{{)", index_, request_.stream ? "delta" : "message");
  if (!std::exchange(begun_, true)) out += R"("role":"assistant",)";
  out += R"("content":)";
  append_string(out, text_);
  text_.clear();
  out += request_.stream ? R"(},"logprobs":)" : R"(,"refusal":null},"logprobs":)";
  if (request_.logprobs && (!logprobs_.empty() || !request_.stream)) {
    out += R"({"content":)";
    logprobs_.move_to(out);
    out += R"(,"refusal":null})";
  } else {
    out += "null";
  }
  if (request_.return_token_ids) {
    out += R"(,"token_ids":)";
    token_ids_.move_to(out);
  }
  append_finish(out, end_, model_, last_token_);
  out += '}';
  return out;
}

}  // namespace krait::api
