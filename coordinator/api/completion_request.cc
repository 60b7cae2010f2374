#include "coordinator/api/completion_request.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/base/limits.h"
#include "common/base/rng.h"
#include "coordinator/api/fields.h"
#include "coordinator/api/json_body.h"
#include "coordinator/api/request_tables.h"

namespace krait::api {
namespace {

using nlohmann::json;

/// Below this a temperature is taken as 0: its reciprocal would leave float32's useful range.
constexpr double kLeastTemperature = 1e-4;

Error wrong(std::string message, std::string param) {
  return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
}

Error wrong_prompt(std::string message, std::string param = "prompt") {
  return wrong(std::move(message), std::move(param));
}

/// Reads prompts in their four forms.
class PromptReader final {
 public:
  PromptReader(const Fields& fields, const ModelInfo& model)
      : value_(fields.find("prompt")),
        model_(model),
        add_special_(fields.boolean("add_special_tokens").value()),
        keep_text_(fields.boolean("echo").value()) {}

  Result<std::vector<Prompt>> read() const {
    if (value_->is_array() && value_->empty()) return wrong_prompt("'prompt' is an empty array");
    std::vector<Prompt> prompts;
    if (!value_->is_array() || value_->front().is_number()) {
      ASSIGN_OR_RETURN(prompts.emplace_back(), read_one(*value_, "prompt"));
      return prompts;
    }
    if (value_->size() > static_cast<size_t>(limits::kMaxPromptsPerRequest)) {
      return wrong_prompt(fmt::format("'prompt' has more than {} prompts", limits::kMaxPromptsPerRequest));
    }
    for (const json& item : *value_) {
      ASSIGN_OR_RETURN(prompts.emplace_back(), read_one(item, fmt::format("prompt[{}]", prompts.size())));
    }
    return prompts;
  }

 private:
  Result<Prompt> read_one(const json& value, const std::string& name) const {
    Prompt prompt;
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      ASSIGN_OR_RETURN(prompt.tokens, encode_text(model_, text, {.add_special_tokens = add_special_}, name));
      RETURN_IF_ERROR(check_prompt(prompt.tokens.size(), name));
      if (keep_text_) prompt.text = text;
      return prompt;
    }
    if (!value.is_array()) return wrong_prompt(fmt::format("'{}' must be a text or a list of token ids", name), name);
    RETURN_IF_ERROR(check_prompt(value.size(), name));
    ASSIGN_OR_RETURN(prompt.tokens, token_ids(value, name, model_.vocab_size));
    if (keep_text_ && model_.tokenizer != nullptr) prompt.text = model_.tokenizer->decode(prompt.tokens, false);
    return prompt;
  }

  const json* value_;
  const ModelInfo& model_;
  const bool add_special_;
  const bool keep_text_;
};

void read_sampling(const Fields& fields, wire::SamplingParams& sampling) {
  const auto number = [&](std::string_view name) { return static_cast<float>(fields.number(name).value()); };
  sampling.temperature = number("temperature");
  if (sampling.temperature < kLeastTemperature) sampling.temperature = 0;
  sampling.top_p = number("top_p");
  sampling.min_p = number("min_p");
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(0, fields.integer("top_k").value()));
  sampling.presence_penalty = number("presence_penalty");
  sampling.frequency_penalty = number("frequency_penalty");
  sampling.repetition_penalty = number("repetition_penalty");
  sampling.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens").value());
  sampling.seed = fields.seed("seed").value_or(random_u64());
  for (const auto& [token, bias] : fields.bias("logit_bias"))
    sampling.logit_bias.push_back({token, bias});
}

Status read_stops(const Fields& fields, const ModelInfo& model, requests::SharedSpec& spec) {
  auto strings = fields.strings("stop");
  std::erase(strings, "");
  if (!strings.empty() && model.tokenizer == nullptr) {
    return wrong("this model has no tokenizer: give 'stop_token_ids' in place of 'stop'", "stop");
  }
  if (!strings.empty()) spec.stop = std::make_shared<const tokenizer::StopStrings>(std::move(strings));
  std::set<int32_t> stops;
  if (!fields.boolean("ignore_eos").value()) stops.insert(model.eos_ids.begin(), model.eos_ids.end());
  for (const int32_t id : fields.token_ids("stop_token_ids"))
    stops.insert(id);
  spec.sampling.stop_ids.assign(stops.begin(), stops.end());
  spec.include_stop = fields.boolean("include_stop_str_in_output").value();
  spec.skip_special_tokens = fields.boolean("skip_special_tokens").value();
  return {};
}

Status read_stream_options(const Fields& fields, CompletionRequest& request) {
  request.stream = fields.boolean("stream").value();
  const json* options = fields.find("stream_options");
  if (options == nullptr) return {};
  if (!request.stream) return wrong("'stream_options' needs 'stream': true", "stream_options");
  ASSIGN_OR_RETURN(const auto inner, Fields::check(*options, kStreamOptionFields, "stream_options."));
  request.include_usage = inner.boolean("include_usage").value();
  request.unknown_fields.add(inner.unknown());
  return {};
}

/// How much a request may ask for in all.
Status check_amount(const CompletionRequest& request) {
  const std::string_view field = request.prompt_field();
  if (request.prompts.size() * request.n > static_cast<size_t>(limits::kMaxSequencesPerRequest)) {
    return wrong(fmt::format("'{}' and 'n' ask for more than {} sequences", field, limits::kMaxSequencesPerRequest),
                 "n");
  }
  int64_t tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    tokens += length * request.n;
    if (request.echo && request.logprobs && length > limits::kMaxEchoLogprobTokens) {
      return wrong(
          fmt::format("'echo' with 'logprobs' takes prompts of at most {} tokens", limits::kMaxEchoLogprobTokens),
          "prompt");
    }
  }
  const int64_t entries = request.echo && request.logprobs ? tokens * (1 + *request.logprobs) : 0;
  if (entries > limits::kMaxScoredEntries) {
    return wrong(fmt::format("'echo', 'logprobs' and 'n' ask for {} logprobs in all; at most {} are given", entries,
                             limits::kMaxScoredEntries),
                 "logprobs");
  }
  // Each choice is a sequence of its own with a prompt of its own.
  if (tokens > limits::kMaxRequestTokens) {
    return wrong(fmt::format("'{}' and 'n' ask for {} prompt tokens in all; at most {} are taken", field, tokens,
                             limits::kMaxRequestTokens),
                 std::string(field));
  }
  return {};
}

}  // namespace

Status check_together(const ModelInfo& model, const CompletionRequest& request) {
  const auto& sampling = request.shared.sampling;
  const uint32_t max_tokens = request.shared.max_tokens;
  if (sampling.min_tokens > max_tokens) return wrong("'min_tokens' must not be above 'max_tokens'", "min_tokens");
  if (max_tokens == 0 && !request.echo) {
    return wrong("'max_tokens' must be at least 1 unless 'echo' is true", "max_tokens");
  }
  for (const int32_t id : sampling.stop_ids) {
    if (id >= model.vocab_size)
      return wrong(fmt::format("'stop_token_ids' has {}, which is no token", id), "stop_token_ids");
  }
  for (const auto& bias : sampling.logit_bias) {
    if (bias.token < model.vocab_size) continue;
    return wrong(fmt::format("'logit_bias' has {}, which is no token", bias.token),
                 fmt::format("logit_bias.{}", bias.token));
  }
  return check_amount(request);
}

Status check_model(const ModelInfo& model, const std::string& name) {
  if (name == model.name) return {};
  return Error{Errc::kNotFound,
               fmt::format("the model '{}' does not exist; '{}' is served", shortened(name), model.name), "model"};
}

Status check_prompt(size_t tokens, const std::string& name) {
  if (tokens == 0) return wrong_prompt(fmt::format("'{}' has no tokens", name), name);
  if (static_cast<int64_t>(tokens) <= limits::kMaxPromptTokens) return {};
  return wrong_prompt(fmt::format("'{}' has {} tokens; at most {} are taken", name, tokens, limits::kMaxPromptTokens),
                      name);
}

Result<std::vector<int32_t>> encode_text(const ModelInfo& model, std::string_view text,
                                         tokenizer::Tokenizer::EncodeOptions options, const std::string& name) {
  if (model.tokenizer == nullptr) {
    return wrong_prompt(fmt::format("'{}' must be token ids: this model has no tokenizer", name), name);
  }
  options.cache = model.texts.get();
  auto tokens = model.tokenizer->encode(text, options);
  if (!tokens.ok()) {
    return Error{tokens.error().code, fmt::format("'{}' cannot be tokenized: {}", name, tokens.error().message), name};
  }
  for (const int32_t id : *tokens) {
    if (id < model.vocab_size) continue;
    return wrong_prompt(
        fmt::format("'{}' has a text whose token is {}; the model's are 0 to {}", name, id, model.vocab_size - 1),
        name);
  }
  return tokens;
}

std::string token_string(const ModelInfo& model, int32_t id) {
  return model.tokenizer != nullptr ? model.tokenizer->token_text(id) : fmt::format("token_id:{}", id);
}

Status read_generation(const Fields& fields, const ModelInfo& model, CompletionRequest& request) {
  request.model = fields.string("model").value_or(model.name);
  RETURN_IF_ERROR(check_model(model, request.model));
  request.unknown_fields = fields.unknown();
  RETURN_IF_ERROR(read_stream_options(fields, request));
  request.n = static_cast<uint32_t>(fields.integer("n").value());
  request.has_seed = fields.has("seed");
  request.return_token_ids = fields.boolean("return_token_ids").value();
  auto& shared = request.shared;
  read_sampling(fields, shared.sampling);
  if (model.tokenizer != nullptr && model.tokenizer->vocab_size() < model.vocab_size) {
    shared.sampling.vocab_limit = static_cast<uint32_t>(model.tokenizer->vocab_size());
  }
  return read_stops(fields, model, shared);
}

Result<CompletionRequest> read_completion_request(std::string_view body, const ModelInfo& model) {
  ASSIGN_OR_RETURN(auto parsed, parse_body(body));
  ASSIGN_OR_RETURN(const auto fields, Fields::check(std::move(parsed), kCompletionFields));
  CompletionRequest request;
  RETURN_IF_ERROR(read_generation(fields, model, request));
  request.echo = fields.boolean("echo").value();
  request.shared.max_tokens = static_cast<uint32_t>(fields.integer("max_tokens").value());
  if (const auto logprobs = fields.integer("logprobs")) {
    request.logprobs = static_cast<int32_t>(*logprobs);
    request.shared.sampling.logprobs = *request.logprobs;
    request.shared.sampling.prompt_logprobs = request.echo;
  }
  if (fields.integer("best_of").value_or(request.n) != request.n) {
    return wrong("'best_of' is only supported with the value of 'n'", "best_of");
  }
  ASSIGN_OR_RETURN(request.prompts, PromptReader(fields, model).read());
  RETURN_IF_ERROR(check_together(model, request));
  return request;
}

requests::GenerationSpec CompletionRequest::generation() const {
  requests::GenerationSpec spec;
  spec.model = model;
  spec.n = n;
  spec.shared = shared;
  // Without a seed of the client's, two prompts must not share their chance, least of all two equal ones.
  for (const Prompt& prompt : prompts)
    spec.prompts.push_back({prompt.tokens, has_seed ? shared.sampling.seed : random_u64()});
  return spec;
}

}  // namespace krait::api
