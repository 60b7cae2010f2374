#include "coordinator/api/openapi.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/base/version.h"
#include "coordinator/api/answer_schemas.h"
#include "coordinator/api/field_schema.h"
#include "coordinator/api/request_tables.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;

struct Operation final {
  std::string_view method;
  std::string_view path;
  std::string_view id;
  Access access;
  std::span<const FieldSpec> fields;
  std::string_view answer;
  std::string_view summary;

  bool names_model() const {
    const auto is_model = [](const FieldSpec& spec) { return spec.type == FieldType::kModel; };
    return path.find('{') != path.npos || std::any_of(fields.begin(), fields.end(), is_model);
  }
  bool streams() const {
    return std::any_of(fields.begin(), fields.end(), [](const FieldSpec& spec) { return spec.name == "stream"; });
  }
};

constexpr auto kOperations = std::to_array<Operation>({
#define ENDPOINT(method, path, handler, access, fields, answer, summary) \
  {method, path, #handler, Access::access, fields, answer, summary},
#include "coordinator/api/endpoints.def"
#undef ENDPOINT
});

std::string answer_text(const Operation& operation) {
  if (!operation.streams()) return "As asked.";
  return fmt::format(
      "With stream: server-sent events. The data of each is a {}Chunk, at worst an Error; the last is "
      "[DONE].",
      operation.answer);
}

/// Of each event of a stream.
ordered_json event_schema() {
  return {{"type", "object"}, {"required", {"data"}}, {"properties", {{"data", {{"type", "string"}}}}}};
}

ordered_json reference(std::string_view kind, std::string_view name) {
  return {{"$ref", fmt::format("#/components/{}/{}", kind, name)}};
}

ordered_json json_content(ordered_json schema) {
  return {{"application/json", {{"schema", std::move(schema)}}}};
}

ordered_json headers(std::initializer_list<std::string_view> names) {
  ordered_json out;
  for (const std::string_view name : names)
    out[std::string(name)] = reference("headers", name);
  return out;
}

struct Refusal final {
  int status;
  std::string_view description;
  bool (*applies)(const Operation&);
};

// What is wrong with a request may show before its endpoint is known: then any of them answers with it.
constexpr auto kRefusals = std::to_array<Refusal>({
    {400, "The request is malformed, or a field has a wrong value: param names it.", [](const auto&) { return true; }},
    {401, "A valid API key is needed.", [](const auto& operation) { return operation.access == Access::kKey; }},
    {404, "The model is not served here.", [](const auto& operation) { return operation.names_model(); }},
    {408, "The request came too slowly.", [](const auto&) { return true; }},
    {413, "The body is too large.", [](const auto&) { return true; }},
    {415, "The body is encoded.", [](const auto&) { return true; }},
    {417, "Expect asks for something else than 100-continue.", [](const auto&) { return true; }},
    {429, "Too many requests wait.", [](const auto&) { return true; }},
    {431, "The headers are too large.", [](const auto&) { return true; }},
    {500, "The server failed.", [](const auto&) { return true; }},
    {501, "The transfer coding is not supported.", [](const auto&) { return true; }},
    {503, "The server cannot serve now.", [](const auto&) { return true; }},
    {504, "The request took too long.", [](const auto& operation) { return operation.streams(); }},
    {505, "Neither HTTP/1.1 nor 1.0.", [](const auto&) { return true; }},
});

std::string refusal_name(int status) {
  return fmt::format("error_{}", status);
}

ordered_json refusal_responses() {
  ordered_json responses;
  for (const Refusal& refusal : kRefusals) {
    auto& response = responses[refusal_name(refusal.status)];
    response["description"] = refusal.description;
    response["headers"] = refusal.status == 429 || refusal.status == 503 ? headers({"x-request-id", "Retry-After"})
                                                                         : headers({"x-request-id"});
    response["content"] = json_content(reference("schemas", "Error"));
  }
  return responses;
}

ordered_json responses_of(const Operation& operation, bool with_keys) {
  // An ordered object is a vector: nothing may refer to a member while others are added.
  ordered_json good;
  good["description"] = answer_text(operation);
  good["headers"] =
      operation.fields.empty() ? headers({"x-request-id"}) : headers({"x-request-id", "x-krait-unknown-fields"});
  good["content"] = json_content(reference("schemas", operation.answer));
  if (operation.streams()) good["content"]["text/event-stream"]["schema"] = event_schema();
  ordered_json responses = {{"200", good}};
  for (const Refusal& refusal : kRefusals) {
    if (!refusal.applies(operation) || (refusal.status == 401 && !with_keys)) continue;
    responses[std::to_string(refusal.status)] = reference("responses", refusal_name(refusal.status));
  }
  if (operation.answer == "Ready") {
    // That it is not ready, it says in the same form.
    responses["503"] = good;
    const ordered_json forms = {reference("schemas", operation.answer), reference("schemas", "Error")};
    responses["503"]["content"] = json_content({{"anyOf", forms}});
  }
  return responses;
}

ordered_json describe(const Operation& operation, const ApiOptions& options) {
  const bool with_keys = !options.api_keys.empty();
  ordered_json out;
  out["operationId"] = operation.id;
  out["summary"] = operation.summary;
  if (operation.path.find('{') != operation.path.npos) {
    ordered_json parameter = {{"name", "model"}, {"in", "path"}, {"required", true}};
    parameter["schema"] = {{"type", "string"}, {"minLength", 1}};
    parameter["example"] = options.model.name;
    out["parameters"].push_back(std::move(parameter));
  }
  if (!operation.fields.empty()) {
    out["requestBody"]["required"] = true;
    out["requestBody"]["content"] = json_content(reference("schemas", std::string(operation.id) + "_request"));
  }
  out["responses"] = responses_of(operation, with_keys);
  if (with_keys && operation.access == Access::kKey) out["security"].push_back({{"key", ordered_json::array()}});
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return out;
}

}  // namespace

ordered_json openapi_document(const ApiOptions& options) {
  ordered_json paths;
  ordered_json components = {{"schemas", answer_schemas()}};
  for (const Operation& operation : kOperations) {
    paths[std::string(operation.path)][lower(operation.method)] = describe(operation, options);
    if (operation.fields.empty()) continue;
    components["schemas"][std::string(operation.id) + "_request"] =
        object_schema(operation.fields, options.model, options.strict_fields);
  }
  components["responses"] = refusal_responses();
  components["headers"] = {
      {"x-request-id", {{"required", true}, {"schema", {{"type", "string"}}}}},
      {"Retry-After", {{"description", "seconds"}, {"schema", {{"type", "integer"}, {"minimum", 1}}}}},
      {"x-krait-unknown-fields",
       {{"description", "fields that were accepted and ignored"}, {"schema", {{"type", "string"}}}}}};
  if (!options.api_keys.empty()) components["securitySchemes"]["key"] = {{"type", "http"}, {"scheme", "bearer"}};
  ordered_json document = {{"openapi", "3.1.0"}, {"info", {{"title", "Krait"}, {"version", version()}}}};
  document["paths"] = std::move(paths);
  document["components"] = std::move(components);
  return document;
}

}  // namespace krait::api
