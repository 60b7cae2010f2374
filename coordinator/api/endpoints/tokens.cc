// POST /tokenize and /detokenize, as vLLM has them.
#include "common/base/limits.h"
#include "coordinator/api/api.h"
#include "coordinator/api/fields.h"
#include "coordinator/api/json_body.h"
#include "coordinator/api/request_tables.h"

namespace krait::api {
namespace {

Result<Fields> read(Api& api, const http::Request& request, std::span<const FieldSpec> table) {
  ASSIGN_OR_RETURN(auto body, parse_body(request.body));
  ASSIGN_OR_RETURN(auto fields, Fields::check(std::move(body), table));
  RETURN_IF_ERROR(take_unknown_fields(api, fields.unknown()));
  RETURN_IF_ERROR(check_model(api.model(), fields.string("model").value_or(api.model().name)));
  return fields;
}

struct Answer final {
  nlohmann::ordered_json body;
  UnknownFields unknown;
};

Result<Answer> tokenized(Api& api, const http::Request& request) {
  ASSIGN_OR_RETURN(const auto fields, read(api, request, kTokenizeFields));
  const bool special = fields.boolean("add_special_tokens").value();
  ASSIGN_OR_RETURN(const auto ids, encode_text(api.model(), fields.string("prompt").value(),
                                               {.add_special_tokens = special}, "prompt"));
  Answer answer{{}, fields.unknown()};
  auto& body = answer.body;
  body["count"] = ids.size();
  body["max_model_len"] = limits::kMaxPromptTokens;
  body["tokens"] = ids;
  body["token_strs"] = nullptr;
  if (fields.boolean("return_token_strs").value()) {
    body["token_strs"] = nlohmann::ordered_json::array();
    for (const int32_t id : ids)
      body["token_strs"].push_back(token_string(api.model(), id));
  }
  return answer;
}

Result<Answer> detokenized(Api& api, const http::Request& request) {
  ASSIGN_OR_RETURN(const auto fields, read(api, request, kDetokenizeFields));
  if (api.model().tokenizer == nullptr) return Error{Errc::kInvalidArgument, "this model has no tokenizer", "tokens"};
  const auto ids = fields.token_ids("tokens");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < api.model().vocab_size) continue;
    const std::string name = fmt::format("tokens[{}]", i);
    return Error{Errc::kInvalidArgument,
                 fmt::format("'{}' is {}; token ids are 0 to {}", name, ids[i], api.model().vocab_size - 1), name};
  }
  Answer answer{{}, fields.unknown()};
  answer.body["prompt"] = api.model().tokenizer->decode(ids, false);
  return answer;
}

void respond(Api& api, http::Responder& responder, const Result<Answer>& answer) {
  if (answer.ok()) {
    respond_json(responder, 200, dump(answer->body), answer->unknown);
  } else {
    respond_error(api, responder, answer.error());
  }
}

}  // namespace

void tokenize(Api& api, const http::Request& request, const ResponderPtr& responder) {
  respond(api, *responder, tokenized(api, request));
}

void detokenize(Api& api, const http::Request& request, const ResponderPtr& responder) {
  respond(api, *responder, detokenized(api, request));
}

}  // namespace krait::api
