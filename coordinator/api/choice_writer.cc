#include "coordinator/api/choice_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "coordinator/api/json_body.h"

namespace krait::api {

void append_finish(std::string& out, const std::optional<requests::SequenceEnd>& end, const ModelInfo& model,
                   int32_t last_token) {
  const bool stopped = end && end->reason == requests::EndReason::kStop;
  out += R"(,"finish_reason":)";
  out += !end ? "null" : stopped ? R"("stop")" : R"("length")";
  out += R"(,"stop_reason":)";
  const auto& eos = model.eos_ids;
  if (stopped && !end->stop_string.empty()) {
    append_string(out, end->stop_string);
  } else if (stopped && !std::binary_search(eos.begin(), eos.end(), last_token)) {
    out += std::to_string(last_token);
  } else {
    out += "null";
  }
}

ChoiceWriter::ChoiceWriter(const CompletionRequest& request, const ModelInfo& model, size_t index)
    : request_(request), model_(model), index_(index) {
  if (!request_.echo) return;
  const Prompt& prompt = request_.prompts.at(index_ / request_.n);
  echo_ = prompt.text;
  tells_of_prompt_ = true;
  if (!request_.logprobs) return;
  if (model_.tokenizer != nullptr) decoder_.emplace(model_.tokenizer, false);
  // Nothing comes before the first token, so it has no probability.
  add_logprob({prompt.tokens.front(), 0, {}}, false);
}

void ChoiceWriter::advance(int32_t token) {
  fmt::format_to(std::back_inserter(text_offsets_.next()), "{}", offset_);
  if (decoder_) offset_ += characters(decoder_->push(token));
}

void ChoiceWriter::add_logprob(const wire::TokenInfo& token, bool known) {
  advance(token.token);
  append_string(tokens_.next(), token_string(model_, token.token));
  if (known) {
    append_number(token_logprobs_.next(), token.logprob);
    add_alternatives(token);
  } else {
    token_logprobs_.next() += "null";
    top_logprobs_.next() += "null";
  }
}

void ChoiceWriter::add_alternatives(const wire::TokenInfo& token) {
  std::string& out = top_logprobs_.next();
  std::vector<std::string> names;
  const auto add = [&](int32_t id, float logprob) {
    auto name = token_string(model_, id);
    // Two ids may have the same text; an object has each name once, and the likelier one stands there.
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    out += names.empty() ? '{' : ',';
    append_string(out, name);
    out += ':';
    append_number(out, logprob);
    names.push_back(std::move(name));
  };
  for (const auto& alternative : token.top)
    add(alternative.token, alternative.logprob);
  add(token.token, token.logprob);  // the chosen one always stands there
  out += '}';
}

void ChoiceWriter::add(const requests::OutputChunk& chunk) {
  text_ += chunk.text;
  tells_of_prompt_ = tells_of_prompt_ || !chunk.prompt_logprobs.empty();
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
    if (request_.return_token_ids) fmt::format_to(std::back_inserter(token_ids_.next()), "{}", token.token);
  }
  if (chunk.end) end_ = chunk.end;
}

size_t ChoiceWriter::size() const {
  return echo_.size() + text_.size() + token_ids_.size() + tokens_.size() + token_logprobs_.size() +
         top_logprobs_.size() + text_offsets_.size();
}

std::string ChoiceWriter::take() {
  std::string out = fmt::format(R"({{"index":{},"text":)", index_);
  append_string(out, echo_.empty() ? text_ : fmt::format("{}{}", echo_, text_));
  echo_ = {};
  text_.clear();
  out += R"(,"logprobs":)";
  // The last piece of a stream often has no token: its end alone.
  if (request_.logprobs && (!tokens_.empty() || !request_.stream)) {
    out += R"({"tokens":)";
    tokens_.move_to(out);
    out += R"(,"token_logprobs":)";
    token_logprobs_.move_to(out);
    out += R"(,"top_logprobs":)";
    top_logprobs_.move_to(out);
    out += R"(,"text_offset":)";
    text_offsets_.move_to(out);
    out += '}';
  } else {
    out += "null";
  }
  if (request_.return_token_ids) {
    out += R"(,"token_ids":)";
    token_ids_.move_to(out);
  }
  append_finish(out, end_, model_, last_token_);
  out += '}';
  tells_of_prompt_ = false;
  return out;
}

}  // namespace krait::api
