// A /v1/completions request, read and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "coordinator/api/chat_templates.h"
#include "coordinator/api/fields.h"
#include "coordinator/requests/generation.h"
#include "coordinator/tokenizer/stretch_cache.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::api {

/// What the API knows of the model that it serves.
struct ModelInfo final {
  std::string name;                                       // served name
  int64_t vocab_size = 0;                                 // ids of prompts are below this
  std::vector<int32_t> eos_ids;                           // ascending
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // null: only token ids are served
  std::shared_ptr<const ChatTemplates> chat;              // null: there is no chat
  std::shared_ptr<tokenizer::StretchCache> texts;         // tokenized lately; null: none is remembered
};

struct Prompt final {
  std::string text;  // as given, or decoded from the ids; empty unless the prompt is to be echoed
  std::vector<int32_t> tokens;
};

/// A request for text, from either endpoint.
struct CompletionRequest final {
  bool chat = false;  // answered in the forms of chat
  std::string model;
  std::vector<Prompt> prompts;  // at least one
  uint32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  std::optional<int32_t> logprobs;
  bool return_token_ids = false;
  bool has_seed = false;  // the client's own: then equal prompts give equal texts
  requests::SharedSpec shared;
  UnknownFields unknown_fields;  // accepted and ignored

  /// The field that the prompts come from.
  std::string_view prompt_field() const { return chat ? "messages" : "prompt"; }
  /// What the cluster is asked for, but for who asks and for how long.
  requests::GenerationSpec generation() const;
};

/// Reads, tokenizes and checks; what passes here, wire::decode and a group's admission take too. Errors:
/// kInvalidArgument (param the field), kNotFound (model), and what the tokenizer refuses.
Result<CompletionRequest> read_completion_request(std::string_view body, const ModelInfo& model);

/// Reads what all endpoints that generate have in common: everything of generation_fields.def. kNotFound for another
/// model.
Status read_generation(const Fields& fields, const ModelInfo& model, CompletionRequest& request);
/// Rules between fields, and how much is asked for in all; once the prompts are there.
Status check_together(const ModelInfo& model, const CompletionRequest& request);
/// A prompt of so many tokens: neither none nor too many. `name`: the field that it comes from.
Status check_prompt(size_t tokens, const std::string& name);

/// Token ids of a text, all of them the model's: a tokenizer may have more than the model has. Errors:
/// kInvalidArgument, param `name`.
Result<std::vector<int32_t>> encode_text(const ModelInfo& model, std::string_view text,
                                         tokenizer::Tokenizer::EncodeOptions options, const std::string& name);

/// How a token is written in logprobs and /tokenize: its text, or "token_id:N" without a tokenizer.
std::string token_string(const ModelInfo& model, int32_t id);

/// kNotFound, param "model", unless `name` is the served one.
Status check_model(const ModelInfo& model, const std::string& name);

}  // namespace krait::api
