#include "coordinator/api/answer_schemas.h"

#include <set>
#include <string_view>

#include "common/base/result.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;

// Every property is always there, unless its description says when.
constexpr std::string_view kCompletionSchemas = R"json({
"Logprobs": {"type": "object", "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"], "properties": {
  "tokens": {"type": "array", "items": {"type": "string"}},
  "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]},
    "description": "null for the first token of an echoed prompt: nothing comes before it"},
  "top_logprobs": {"type": "array", "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}},
  "text_offset": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "in characters"}}},
"Choice": {"type": "object", "required": ["index", "text", "logprobs", "finish_reason", "stop_reason"], "properties": {
  "index": {"type": "integer", "minimum": 0, "description": "choice c of prompt p has index p * n + c"},
  "text": {"type": "string"},
  "logprobs": {"anyOf": [{"$ref": "#/components/schemas/Logprobs"}, {"type": "null"}]},
  "token_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "with return_token_ids"},
  "finish_reason": {"enum": ["stop", "length", null], "description": "null: the choice goes on in later chunks"},
  "stop_reason": {"type": ["string", "integer", "null"], "description": "the stop string or token of the request"}}},
"Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"],
  "properties": {
  "prompt_tokens": {"type": "integer", "minimum": 0},
  "completion_tokens": {"type": "integer", "minimum": 0},
  "total_tokens": {"type": "integer", "minimum": 0},
  "prompt_tokens_details": {"type": "object", "required": ["cached_tokens"],
    "properties": {"cached_tokens": {"type": "integer", "minimum": 0}}}}},
"Completion": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"], "properties": {
  "id": {"type": "string"},
  "object": {"const": "text_completion"},
  "created": {"type": "integer", "description": "seconds since 1970"},
  "model": {"type": "string"},
  "system_fingerprint": {"type": "string", "description": "equal ids give equal texts for equal seeds"},
  "choices": {"type": "array", "items": {"$ref": "#/components/schemas/Choice"}, "minItems": 1},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"CompletionChunk": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices"], "properties": {
  "id": {"type": "string"},
  "object": {"const": "text_completion"},
  "created": {"type": "integer"},
  "model": {"type": "string"},
  "system_fingerprint": {"type": "string"},
  "choices": {"type": "array", "items": {"$ref": "#/components/schemas/Choice"}},
  "usage": {"anyOf": [{"$ref": "#/components/schemas/Usage"}, {"type": "null"}],
    "description": "with stream_options.include_usage: null but in the last chunk, which has no choices"}}}
})json";

constexpr std::string_view kChatSchemas = R"json({
"TokenLogprob": {"type": "object", "required": ["token", "logprob", "bytes"], "properties": {
  "token": {"type": "string"},
  "logprob": {"type": "number"},
  "bytes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255},
    "description": "of the token's text: a character may be cut between tokens"}}},
"ChosenLogprob": {"type": "object", "required": ["token", "logprob", "bytes", "top_logprobs"], "properties": {
  "token": {"type": "string"},
  "logprob": {"type": "number"},
  "bytes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
  "top_logprobs": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}}}},
"ChatLogprobs": {"type": "object", "required": ["content", "refusal"], "properties": {
  "content": {"type": "array", "items": {"$ref": "#/components/schemas/ChosenLogprob"}},
  "refusal": {"type": "null"}}},
"ChatChoice": {"type": "object", "required": ["index", "message", "logprobs", "finish_reason", "stop_reason"],
  "properties": {
  "index": {"type": "integer", "minimum": 0},
  "message": {"type": "object", "required": ["role", "content", "refusal"], "properties": {
    "role": {"const": "assistant"}, "content": {"type": "string"}, "refusal": {"type": "null"}}},
  "logprobs": {"anyOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]},
  "token_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "with return_token_ids"},
  "finish_reason": {"enum": ["stop", "length"]},
  "stop_reason": {"type": ["string", "integer", "null"], "description": "the stop string or token of the request"}}},
"ChatDelta": {"type": "object", "required": ["index", "delta", "logprobs", "finish_reason", "stop_reason"],
  "properties": {
  "index": {"type": "integer", "minimum": 0},
  "delta": {"type": "object", "required": ["content"], "properties": {
    "role": {"const": "assistant", "description": "in the choice's first chunk"}, "content": {"type": "string"}}},
  "logprobs": {"anyOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]},
  "token_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "with return_token_ids"},
  "finish_reason": {"enum": ["stop", "length", null], "description": "null: the choice goes on in later chunks"},
  "stop_reason": {"type": ["string", "integer", "null"]}}},
"ChatCompletion": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"], "properties": {
  "id": {"type": "string"},
  "object": {"const": "chat.completion"},
  "created": {"type": "integer", "description": "seconds since 1970"},
  "model": {"type": "string"},
  "system_fingerprint": {"type": "string", "description": "equal ids give equal texts for equal seeds"},
  "choices": {"type": "array", "items": {"$ref": "#/components/schemas/ChatChoice"}, "minItems": 1},
  "usage": {"$ref": "#/components/schemas/Usage"}}},
"ChatCompletionChunk": {"type": "object",
  "required": ["id", "object", "created", "model", "system_fingerprint", "choices"], "properties": {
  "id": {"type": "string"},
  "object": {"const": "chat.completion.chunk"},
  "created": {"type": "integer"},
  "model": {"type": "string"},
  "system_fingerprint": {"type": "string"},
  "choices": {"type": "array", "items": {"$ref": "#/components/schemas/ChatDelta"}},
  "usage": {"anyOf": [{"$ref": "#/components/schemas/Usage"}, {"type": "null"}],
    "description": "with stream_options.include_usage: null but in the last chunk, which has no choices"}}}
})json";

constexpr std::string_view kOtherSchemas = R"json({
"Model": {"type": "object", "required": ["id", "object", "created", "owned_by", "max_model_len"], "properties": {
  "id": {"type": "string"},
  "object": {"const": "model"},
  "created": {"type": "integer"},
  "owned_by": {"const": "krait"},
  "max_model_len": {"type": "integer", "description": "most tokens of a prompt, of any model"}}},
"ModelList": {"type": "object", "required": ["object", "data"], "properties": {
  "object": {"const": "list"},
  "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}, "minItems": 1}}},
"Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens", "token_strs"], "properties": {
  "count": {"type": "integer", "minimum": 0},
  "max_model_len": {"type": "integer"},
  "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}},
  "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}}},
"Text": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
"Health": {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}},
"GroupState": {"enum": ["waiting", "loading", "serving", "draining", "failed", "unreachable", "unknown"]},
"Ready": {"type": "object", "required": ["status", "groups"], "properties": {
  "status": {"enum": ["ready", "waiting", "draining"]},
  "groups": {"type": "array", "items": {"type": "object", "required": ["name", "state", "detail"], "properties": {
    "name": {"type": "string"}, "state": {"$ref": "#/components/schemas/GroupState"},
    "detail": {"type": "string"}}}}}},
"Rank": {"type": "object", "required": ["rank", "pid", "joined", "ready", "metrics_port"], "properties": {
  "rank": {"type": "integer"}, "pid": {"type": "integer"}, "joined": {"type": "boolean"},
  "ready": {"type": "boolean"}, "metrics_port": {"type": "integer"}}},
"Group": {"type": "object",
  "required": ["name", "state", "detail", "model", "system_fingerprint", "fingerprint", "slots", "running", "waiting",
    "max_queue", "tokens_per_second", "backlog_seconds", "ranks"],
  "properties": {
  "name": {"type": "string"},
  "state": {"$ref": "#/components/schemas/GroupState"},
  "detail": {"type": "string"},
  "model": {"type": "string"},
  "system_fingerprint": {"type": "string"},
  "fingerprint": {"type": "string", "description": "of the weights"},
  "slots": {"type": "integer"}, "running": {"type": "integer"}, "waiting": {"type": "integer"},
  "max_queue": {"type": "integer"},
  "tokens_per_second": {"type": "number"}, "backlog_seconds": {"type": "number"},
  "ranks": {"type": "array", "items": {"$ref": "#/components/schemas/Rank"}}}},
"Cluster": {"type": "object", "required": ["version", "coordinator", "groups"], "properties": {
  "version": {"type": "string"},
  "coordinator": {"type": "object", "required": ["pid", "open_requests"],
    "properties": {"pid": {"type": "integer"}, "open_requests": {"type": "integer"}}},
  "groups": {"type": "array", "items": {"$ref": "#/components/schemas/Group"}}}},
"OpenApi": {"type": "object", "additionalProperties": true, "required": ["openapi", "info", "paths"], "properties": {
  "openapi": {"type": "string"}, "info": {"type": "object", "additionalProperties": true},
  "paths": {"type": "object", "additionalProperties": true}}}
})json";

ordered_json error_schema() {
  ordered_json schema = ordered_json::parse(R"json({"type": "object", "required": ["error"], "properties": {
    "error": {"type": "object", "required": ["message", "type", "param", "code"], "properties": {
      "message": {"type": "string", "minLength": 1},
      "type": {}, "param": {"type": ["string", "null"], "description": "the field or header to blame"},
      "code": {}}}}})json");
  auto& fields = schema["properties"]["error"]["properties"];
  std::set<std::string_view> types;
  std::set<std::string_view> codes;
#define ERROR(name, label, http_status, openai_type) \
  types.insert(openai_type);                         \
  codes.insert(label);
#include "common/base/errors.def"
#undef ERROR
  fields["type"] = {{"enum", types}};
  fields["code"] = {{"enum", codes}};
  return schema;
}

}  // namespace

ordered_json answer_schemas() {
  ordered_json schemas = ordered_json::parse(kCompletionSchemas);
  schemas.update(ordered_json::parse(kChatSchemas));
  schemas.update(ordered_json::parse(kOtherSchemas));
  schemas["Error"] = error_schema();
  return schemas;
}

}  // namespace krait::api
