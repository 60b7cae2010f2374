#include "coordinator/api/choice_writer.h"

#include <algorithm>
#include <utility>

#include "coordinator/api/json_body.h"

namespace krait::api {

using nlohmann::ordered_json;

ChoiceWriter::ChoiceWriter(const CompletionRequest& request, const ModelInfo& model, size_t index)
    : request_(request), model_(model), index_(index) {
  if (!request_.echo) return;
  const Prompt& prompt = request_.prompts.at(index_ / request_.n);
  text_ = prompt.text;
  if (!request_.logprobs) return;
  if (model_.tokenizer != nullptr) decoder_.emplace(model_.tokenizer, false);
  // Nothing comes before the first token, so it has no probability.
  add_logprob({prompt.tokens.front(), 0, {}}, false);
}

void ChoiceWriter::advance(int32_t token) {
  text_offsets_.push_back(offset_);
  if (decoder_) offset_ += characters(decoder_->push(token));
}

void ChoiceWriter::add_logprob(const wire::TokenInfo& token, bool known) {
  advance(token.token);
  tokens_.push_back(token_string(model_, token.token));
  if (!known) {
    token_logprobs_.push_back(nullptr);
    top_logprobs_.push_back(nullptr);
    return;
  }
  token_logprobs_.push_back(token.logprob);
  ordered_json top = ordered_json::object();
  for (const auto& alternative : token.top)
    top.emplace(token_string(model_, alternative.token), alternative.logprob);
  top.emplace(tokens_.back(), token.logprob);  // the chosen one always stands there
  top_logprobs_.push_back(std::move(top));
}

void ChoiceWriter::add(const requests::OutputChunk& chunk) {
  text_ += chunk.text;
  if (request_.logprobs) {
    for (const auto& token : chunk.prompt_logprobs)
      add_logprob(token, true);
    if (!in_output_ && !chunk.tokens.empty()) {
      in_output_ = true;
      if (request_.echo) offset_ = characters(request_.prompts.at(index_ / request_.n).text);
      if (model_.tokenizer != nullptr) decoder_.emplace(model_.tokenizer, request_.shared.skip_special_tokens);
    }
    for (const auto& token : chunk.tokens)
      add_logprob(token, true);
  }
  for (const auto& token : chunk.tokens) {
    last_token_ = token.token;
    if (request_.return_token_ids) token_ids_.push_back(token.token);
  }
  if (chunk.end) end_ = chunk.end;
}

ordered_json ChoiceWriter::finish_reason() const {
  if (!end_) return nullptr;
  return end_->reason == requests::EndReason::kStop ? "stop" : "length";
}

ordered_json ChoiceWriter::stop_reason() const {
  if (!end_ || end_->reason != requests::EndReason::kStop) return nullptr;
  if (!end_->stop_string.empty()) return end_->stop_string;
  const auto& eos = model_.eos_ids;
  if (std::binary_search(eos.begin(), eos.end(), last_token_)) return nullptr;
  return last_token_;
}

ordered_json ChoiceWriter::take() {
  ordered_json choice;
  choice["index"] = index_;
  choice["text"] = std::exchange(text_, {});
  choice["logprobs"] = nullptr;
  // The last piece of a stream often has no token: its end alone.
  if (request_.logprobs && (!tokens_.empty() || !request_.stream)) {
    ordered_json logprobs;
    logprobs["tokens"] = std::exchange(tokens_, {});
    logprobs["token_logprobs"] = std::exchange(token_logprobs_, ordered_json::array());
    logprobs["top_logprobs"] = std::exchange(top_logprobs_, ordered_json::array());
    logprobs["text_offset"] = std::exchange(text_offsets_, {});
    choice["logprobs"] = std::move(logprobs);
  }
  if (request_.return_token_ids) choice["token_ids"] = std::exchange(token_ids_, {});
  choice["finish_reason"] = finish_reason();
  choice["stop_reason"] = stop_reason();
  return choice;
}

}  // namespace krait::api
