// One choice of a completion as JSON, from the chunks of its sequence: whole, or piece by piece for a stream.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/completion_request.h"
#include "coordinator/requests/generation.h"
#include "coordinator/tokenizer/stream_decoder.h"

namespace krait::api {

class ChoiceWriter final {
 public:
  /// For sequence `index` of the request; both references must outlive it. With echo, the prompt is the first piece.
  ChoiceWriter(const CompletionRequest& request, const ModelInfo& model, size_t index);

  void add(const requests::OutputChunk& chunk);

  /// Whether a piece would say anything.
  bool has_news() const { return !text_.empty() || !tokens_.empty() || !token_ids_.empty() || end_.has_value(); }

  /// A choice object with what was added since the last call.
  nlohmann::ordered_json take();

 private:
  void add_logprob(const wire::TokenInfo& token, bool known);
  void advance(int32_t token);
  nlohmann::ordered_json finish_reason() const;
  nlohmann::ordered_json stop_reason() const;

  const CompletionRequest& request_;
  const ModelInfo& model_;
  const size_t index_;
  std::string text_;
  std::vector<int32_t> token_ids_;
  std::vector<std::string> tokens_;
  nlohmann::ordered_json token_logprobs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json top_logprobs_ = nlohmann::ordered_json::array();
  std::vector<int64_t> text_offsets_;
  std::optional<tokenizer::StreamDecoder> decoder_;  // tells where each token begins in the text
  int64_t offset_ = 0;                               // characters before the next token
  bool in_output_ = false;
  int32_t last_token_ = -1;
  std::optional<requests::SequenceEnd> end_;
};

}  // namespace krait::api
