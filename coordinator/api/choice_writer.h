// One choice of a completion as JSON, from the chunks of its sequence: whole, or piece by piece for a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/api/choice_form.h"
#include "coordinator/api/completion_request.h"
#include "coordinator/api/json_text.h"
#include "coordinator/requests/generation.h"
#include "coordinator/tokenizer/stream_decoder.h"

namespace krait::api {

/// Appends "finish_reason" and "stop_reason" of a sequence, each null before its end.
void append_finish(std::string& out, const std::optional<requests::SequenceEnd>& end, const ModelInfo& model,
                   int32_t last_token);

class ChoiceWriter final : public ChoiceForm {
 public:
  /// For sequence `index` of the request; both references must outlive it. With echo, the prompt is the first piece.
  ChoiceWriter(const CompletionRequest& request, const ModelInfo& model, size_t index);

  void add(const requests::OutputChunk& chunk) override;
  bool has_news() const override {
    return !echo_.empty() || !text_.empty() || !tokens_.empty() || !token_ids_.empty() || end_.has_value();
  }
  bool tells_of_prompt() const override { return tells_of_prompt_; }
  size_t size() const override;
  std::string take() override;

 private:
  void add_logprob(const wire::TokenInfo& token, bool known);
  void add_alternatives(const wire::TokenInfo& token);
  void advance(int32_t token);

  const CompletionRequest& request_;
  const ModelInfo& model_;
  const size_t index_;
  std::string_view echo_;  // the request's prompt until it is taken: many choices of a long one are no copies of it
  std::string text_;
  // Written as they come, so that a large answer is never held in a larger form than its own text.
  JsonItems token_ids_;
  JsonItems tokens_;
  JsonItems token_logprobs_;
  JsonItems top_logprobs_;
  JsonItems text_offsets_;
  bool tells_of_prompt_ = false;
  std::optional<tokenizer::StreamDecoder> decoder_;  // tells where each token begins in the text
  int64_t offset_ = 0;                               // characters before the next token
  bool in_output_ = false;
  int32_t last_token_ = -1;
  std::optional<requests::SequenceEnd> end_;
};

}  // namespace krait::api
