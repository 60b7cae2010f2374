// One choice of a chat as JSON: a message, or the deltas of a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/api/choice_form.h"
#include "coordinator/api/completion_request.h"
#include "coordinator/api/json_text.h"

namespace krait::api {

class ChatChoice final : public ChoiceForm {
 public:
  /// For choice `index` of the request; both references must outlive it.
  ChatChoice(const CompletionRequest& request, const ModelInfo& model, size_t index)
      : request_(request), model_(model), index_(index) {}

  void add(const requests::OutputChunk& chunk) override;
  bool has_news() const override {
    return !text_.empty() || !logprobs_.empty() || !token_ids_.empty() || end_.has_value();
  }
  bool tells_of_prompt() const override { return false; }
  size_t size() const override { return text_.size() + logprobs_.size() + token_ids_.size(); }
  std::string take() override;

 private:
  /// Appends {"token", "logprob", "bytes" of a token, without the closing brace.
  void append_entry(std::string& out, int32_t token, float logprob) const;

  const CompletionRequest& request_;
  const ModelInfo& model_;
  const size_t index_;
  std::string text_;
  JsonItems token_ids_;
  JsonItems logprobs_;
  bool begun_ = false;  // the role has been said
  int32_t last_token_ = -1;
  std::optional<requests::SequenceEnd> end_;
};

}  // namespace krait::api
