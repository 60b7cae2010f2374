#include "coordinator/api/completion_request.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/base/limits.h"
#include "common/base/rng.h"
#include "coordinator/api/fields.h"
#include "coordinator/api/json_body.h"

namespace krait::api {
namespace {

using limits::kMaxChoices;
using limits::kMaxGeneratedTokens;
using limits::kMaxLogprobs;
using limits::kMaxStopStrings;
using limits::kMaxStopTokens;
using limits::kMaxVocab;
using nlohmann::json;

/// Below this a temperature is taken as 0: its reciprocal would leave float32's useful range.
constexpr double kLeastTemperature = 1e-4;

constexpr auto kCompletionFields = std::to_array<FieldSpec>({
#define USED(name, type, least, most, help) {#name, FieldUse::kUsed, FieldType::type, least, double(most), help},
#define HARMLESS(name, help) {#name, FieldUse::kHarmless, FieldType::kObject, 0, 0, help},
#define REFUSED(name, neutral) {#name, FieldUse::kRefused, FieldType::kObject, 0, 0, neutral},
#include "coordinator/api/completion_fields.def"
#undef USED
#undef HARMLESS
#undef REFUSED
});

Error wrong_prompt(std::string message, std::string param = "prompt") {
  return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
}

Result<Prompt> prompt_of_ids(const json& ids, const std::string& name, const ModelInfo& model) {
  if (ids.empty()) return wrong_prompt(fmt::format("'{}' has no tokens", name), name);
  if (static_cast<int64_t>(ids.size()) > limits::kMaxPromptTokens) {
    return wrong_prompt(fmt::format("'{}' has {} tokens; at most {} are taken", name, ids.size(),
                                    limits::kMaxPromptTokens), name);
  }
  Prompt prompt;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string item = fmt::format("{}[{}]", name, i);
    ASSIGN_OR_RETURN(const int32_t id, token_id(ids[i], item));
    if (id >= model.vocab_size) {
      return wrong_prompt(fmt::format("'{}' is {}, but the model has {} tokens", item, id, model.vocab_size), item);
    }
    prompt.tokens.push_back(id);
  }
  if (model.tokenizer != nullptr) prompt.text = model.tokenizer->decode(prompt.tokens, false);
  return prompt;
}

Result<Prompt> prompt_of_text(const json& text, const std::string& name, const ModelInfo& model, bool add_special) {
  Prompt prompt;
  prompt.text = text.get<std::string>();
  ASSIGN_OR_RETURN(prompt.tokens, encode_prompt(model, prompt.text, add_special, name));
  return prompt;
}

Result<std::vector<Prompt>> read_prompts(const Fields& fields, const ModelInfo& model) {
  const json* value = fields.find("prompt");
  if (value == nullptr) return wrong_prompt("'prompt' is missing");
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  std::vector<Prompt> prompts;
  const auto add = [&](Result<Prompt> prompt) -> Status {
    if (!prompt.ok()) return prompt.error();
    prompts.push_back(*std::move(prompt));
    return {};
  };
  if (value->is_string()) {
    RETURN_IF_ERROR(add(prompt_of_text(*value, "prompt", model, add_special)));
    return prompts;
  }
  if (!value->is_array()) return wrong_prompt("'prompt' must be text, texts, token ids or lists of token ids");
  if (value->empty()) return wrong_prompt("'prompt' is an empty array");
  if (value->front().is_number()) {
    RETURN_IF_ERROR(add(prompt_of_ids(*value, "prompt", model)));
    return prompts;
  }
  if (value->size() > static_cast<size_t>(limits::kMaxPromptsPerRequest)) {
    return wrong_prompt(fmt::format("'prompt' has more than {} prompts", limits::kMaxPromptsPerRequest));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const json& item = (*value)[i];
    const std::string name = fmt::format("prompt[{}]", i);
    if (item.is_string()) {
      RETURN_IF_ERROR(add(prompt_of_text(item, name, model, add_special)));
    } else if (item.is_array()) {
      RETURN_IF_ERROR(add(prompt_of_ids(item, name, model)));
    } else {
      return wrong_prompt(fmt::format("'{}' must be a text or a list of token ids", name), name);
    }
  }
  return prompts;
}

void read_sampling(const Fields& fields, wire::SamplingParams& sampling) {
  const auto number = [&](std::string_view name, double otherwise) {
    return static_cast<float>(fields.number(name).value_or(otherwise));
  };
  sampling.temperature = number("temperature", 1);
  if (sampling.temperature < kLeastTemperature) sampling.temperature = 0;
  sampling.top_p = number("top_p", 1);
  sampling.min_p = number("min_p", 0);
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(0, fields.integer("top_k").value_or(0)));
  sampling.presence_penalty = number("presence_penalty", 0);
  sampling.frequency_penalty = number("frequency_penalty", 0);
  sampling.repetition_penalty = number("repetition_penalty", 1);
  sampling.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens").value_or(0));
  sampling.seed = fields.seed("seed").value_or(random_u64());
  for (const auto& [token, bias] : fields.bias("logit_bias")) sampling.logit_bias.push_back({token, bias});
}

Status read_stops(const Fields& fields, const ModelInfo& model, requests::SequenceSpec& spec) {
  spec.stop_strings = fields.strings("stop");
  for (size_t i = 0; i < spec.stop_strings.size(); ++i) {
    const std::string name = fmt::format("stop[{}]", i);
    if (spec.stop_strings[i].size() > static_cast<size_t>(limits::kMaxStopStringBytes)) {
      return Error{Errc::kInvalidArgument,
                   fmt::format("'{}' is longer than {} bytes", name, limits::kMaxStopStringBytes), name};
    }
  }
  std::erase(spec.stop_strings, "");
  if (!spec.stop_strings.empty() && model.tokenizer == nullptr) {
    return Error{Errc::kInvalidArgument, "this model has no tokenizer: give 'stop_token_ids' in place of 'stop'", "stop"};
  }
  std::set<int32_t> stops;
  if (!fields.boolean("ignore_eos").value_or(false)) stops.insert(model.eos_ids.begin(), model.eos_ids.end());
  for (const int32_t id : fields.integers("stop_token_ids")) stops.insert(id);
  spec.sampling.stop_ids.assign(stops.begin(), stops.end());
  spec.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  spec.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  return {};
}

Status read_stream_options(const Fields& fields, CompletionRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const json* options = fields.find("stream_options");
  if (options == nullptr) return {};
  if (!request.stream) {
    return Error{Errc::kInvalidArgument, "'stream_options' needs 'stream': true", "stream_options"};
  }
  const auto usage = options->find("include_usage");
  if (usage == options->end() || usage->is_null()) return {};
  if (!usage->is_boolean()) {
    return Error{Errc::kInvalidArgument, "'stream_options.include_usage' must be true or false",
                 "stream_options.include_usage"};
  }
  request.include_usage = usage->get<bool>();
  return {};
}

/// Rules that hold between fields.
Status check_together(const Fields& fields, const ModelInfo& model, const CompletionRequest& request) {
  const auto& shared = request.shared;
  const auto refuse = [](std::string message, std::string param) {
    return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
  };
  if (fields.integer("best_of").value_or(request.n) != request.n) {
    return refuse("'best_of' is only supported with the value of 'n'", "best_of");
  }
  if (fields.has("top_p") && shared.sampling.top_p == 0) return refuse("'top_p' must be above 0", "top_p");
  if (shared.sampling.min_tokens > shared.max_tokens) {
    return refuse("'min_tokens' must not be above 'max_tokens'", "min_tokens");
  }
  if (shared.max_tokens == 0 && !request.echo) {
    return refuse("'max_tokens' must be at least 1 unless 'echo' is true", "max_tokens");
  }
  if (request.prompts.size() * request.n > static_cast<size_t>(limits::kMaxSequencesPerRequest)) {
    return refuse(fmt::format("'prompt' and 'n' ask for more than {} sequences", limits::kMaxSequencesPerRequest), "n");
  }
  for (const int32_t id : shared.sampling.stop_ids) {
    if (id >= model.vocab_size) return refuse(fmt::format("'stop_token_ids' has {}, which is no token", id), "stop_token_ids");
  }
  for (const auto& bias : shared.sampling.logit_bias) {
    if (bias.token >= model.vocab_size) return refuse(fmt::format("'logit_bias' has {}, which is no token", bias.token), "logit_bias");
  }
  if (request.echo && request.logprobs) {
    for (const Prompt& prompt : request.prompts) {
      if (static_cast<int64_t>(prompt.tokens.size()) > limits::kMaxEchoLogprobTokens) {
        return refuse(fmt::format("'echo' with 'logprobs' takes prompts of at most {} tokens",
                                  limits::kMaxEchoLogprobTokens), "prompt");
      }
    }
  }
  return {};
}

}  // namespace

Status check_model(const ModelInfo& model, const std::string& name) {
  if (name == model.name) return {};
  return Error{Errc::kNotFound, fmt::format("the model '{}' does not exist; '{}' is served", name, model.name),
               "model"};
}

Result<std::vector<int32_t>> encode_prompt(const ModelInfo& model, std::string_view text, bool add_special_tokens,
                                           const std::string& name) {
  if (model.tokenizer == nullptr) {
    return wrong_prompt(fmt::format("'{}' must be token ids: this model has no tokenizer", name), name);
  }
  auto tokens = model.tokenizer->encode(text, {add_special_tokens, true});
  if (!tokens.ok()) return Error{tokens.error().code, tokens.error().message, name};
  if (tokens->empty()) return wrong_prompt(fmt::format("'{}' is empty", name), name);
  if (static_cast<int64_t>(tokens->size()) > limits::kMaxPromptTokens) {
    return wrong_prompt(fmt::format("'{}' has {} tokens; at most {} are taken", name, tokens->size(),
                                    limits::kMaxPromptTokens), name);
  }
  for (const int32_t id : *tokens) {
    if (id >= model.vocab_size) {
      return Error{Errc::kInternal, "the tokenizer has tokens that the model does not have", name};
    }
  }
  return tokens;
}

std::string token_string(const ModelInfo& model, int32_t id) {
  return model.tokenizer != nullptr ? model.tokenizer->token_text(id) : fmt::format("token_id:{}", id);
}

Result<CompletionRequest> read_completion_request(std::string_view body, const ModelInfo& model) {
  ASSIGN_OR_RETURN(auto parsed, parse_body(body));
  ASSIGN_OR_RETURN(const auto fields, Fields::check(std::move(parsed), kCompletionFields));
  CompletionRequest request;
  request.model = fields.string("model").value_or(model.name);
  RETURN_IF_ERROR(check_model(model, request.model));
  RETURN_IF_ERROR(read_stream_options(fields, request));
  request.n = static_cast<uint32_t>(fields.integer("n").value_or(1));
  request.echo = fields.boolean("echo").value_or(false);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  auto& shared = request.shared;
  shared.max_tokens = static_cast<uint32_t>(fields.integer("max_tokens").value_or(16));
  read_sampling(fields, shared.sampling);
  if (model.tokenizer != nullptr && model.tokenizer->vocab_size() < model.vocab_size) {
    shared.sampling.vocab_limit = static_cast<uint32_t>(model.tokenizer->vocab_size());
  }
  if (const auto logprobs = fields.integer("logprobs")) {
    request.logprobs = static_cast<int32_t>(*logprobs);
    shared.sampling.logprobs = *request.logprobs;
    shared.sampling.prompt_logprobs = request.echo;
  }
  RETURN_IF_ERROR(read_stops(fields, model, shared));
  ASSIGN_OR_RETURN(request.prompts, read_prompts(fields, model));
  RETURN_IF_ERROR(check_together(fields, model, request));
  request.unknown_fields = fields.unknown();
  return request;
}

std::vector<requests::SequenceSpec> CompletionRequest::sequences() const {
  std::vector<requests::SequenceSpec> out;
  for (const Prompt& prompt : prompts) {
    for (uint32_t choice = 0; choice < n; ++choice) {
      auto& spec = out.emplace_back(shared);
      spec.tokens = prompt.tokens;
      spec.sampling.choice = choice;
    }
  }
  return out;
}

}  // namespace krait::api
