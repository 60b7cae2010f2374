// POST /tokenize and /detokenize, as vLLM has them.
#include <array>

#include "common/base/limits.h"
#include "coordinator/api/api.h"
#include "coordinator/api/fields.h"
#include "coordinator/api/json_body.h"

namespace krait::api {
namespace {

constexpr auto kTokenizeFields = std::to_array<FieldSpec>({
    {"model", FieldUse::kUsed, FieldType::kString, 0, 0, "a served model's name"},
    {"prompt", FieldUse::kUsed, FieldType::kString, 0, 0, "the text"},
    {"add_special_tokens", FieldUse::kUsed, FieldType::kBoolean, 0, 0, "as for completions"},
    {"return_token_strs", FieldUse::kUsed, FieldType::kBoolean, 0, 0, "also each token's text"},
    {"messages", FieldUse::kRefused, FieldType::kObject, 0, 0, ""},
});

constexpr auto kDetokenizeFields = std::to_array<FieldSpec>({
    {"model", FieldUse::kUsed, FieldType::kString, 0, 0, "a served model's name"},
    {"tokens", FieldUse::kUsed, FieldType::kIntegers, 0, limits::kMaxPromptTokens, "token ids"},
});

Error missing(const std::string& field) {
  return Error{Errc::kInvalidArgument, fmt::format("'{}' is missing", field), field};
}

Result<Fields> read(Api& api, const http::Request& request, std::span<const FieldSpec> table) {
  ASSIGN_OR_RETURN(auto body, parse_body(request.body));
  ASSIGN_OR_RETURN(auto fields, Fields::check(std::move(body), table));
  RETURN_IF_ERROR(check_model(api.model(), fields.string("model").value_or(api.model().name)));
  return fields;
}

Result<nlohmann::ordered_json> tokenized(Api& api, const http::Request& request) {
  ASSIGN_OR_RETURN(const auto fields, read(api, request, kTokenizeFields));
  const auto text = fields.string("prompt");
  if (!text) return missing("prompt");
  if (api.model().tokenizer == nullptr) {
    return Error{Errc::kInvalidArgument, "this model has no tokenizer", "prompt"};
  }
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  auto ids = api.model().tokenizer->encode(*text, {special, true});
  if (!ids.ok()) return Error{ids.error().code, ids.error().message, "prompt"};
  nlohmann::ordered_json body;
  body["count"] = ids->size();
  body["max_model_len"] = limits::kMaxPromptTokens;
  body["tokens"] = *ids;
  body["token_strs"] = nullptr;
  if (fields.boolean("return_token_strs").value_or(false)) {
    body["token_strs"] = nlohmann::ordered_json::array();
    for (const int32_t id : *ids) body["token_strs"].push_back(token_string(api.model(), id));
  }
  return body;
}

Result<nlohmann::ordered_json> detokenized(Api& api, const http::Request& request) {
  ASSIGN_OR_RETURN(const auto fields, read(api, request, kDetokenizeFields));
  if (!fields.has("tokens")) return missing("tokens");
  if (api.model().tokenizer == nullptr) return Error{Errc::kInvalidArgument, "this model has no tokenizer", "tokens"};
  nlohmann::ordered_json body;
  body["prompt"] = api.model().tokenizer->decode(fields.integers("tokens"), false);
  return body;
}

void answer(Api& api, http::Responder& responder, const Result<nlohmann::ordered_json>& body) {
  if (body.ok()) {
    respond_json(responder, 200, dump(*body));
  } else {
    respond_error(api, responder, body.error());
  }
}

}  // namespace

void tokenize(Api& api, const http::Request& request, const ResponderPtr& responder) {
  answer(api, *responder, tokenized(api, request));
}

void detokenize(Api& api, const http::Request& request, const ResponderPtr& responder) {
  answer(api, *responder, detokenized(api, request));
}

}  // namespace krait::api
