#include "coordinator/api/field_schema.h"

#include <limits>

#include "common/base/limits.h"
#include "coordinator/api/request_tables.h"

namespace krait::api {
namespace {

using nlohmann::ordered_json;

ordered_json integer_schema(int64_t least, int64_t most) {
  return {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
}

ordered_json token_schema(const ModelInfo& model) {
  return integer_schema(0, model.vocab_size - 1);
}

ordered_json array_schema(ordered_json items, int64_t least, int64_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
}

ordered_json any_of(std::vector<ordered_json> forms) {
  return {{"anyOf", std::move(forms)}};
}

ordered_json prompt_schema(const ModelInfo& model) {
  const ordered_json ids = array_schema(token_schema(model), 1, limits::kMaxPromptTokens);
  const ordered_json text = {{"type", "string"}, {"minLength", 1}};
  if (model.tokenizer == nullptr) return any_of({ids, array_schema(ids, 1, limits::kMaxPromptsPerRequest)});
  return any_of({text, ids, array_schema(any_of({text, ids}), 1, limits::kMaxPromptsPerRequest)});
}

ordered_json stop_schema(const FieldSpec& spec, const ModelInfo& model) {
  // Without a tokenizer there is no text that could hold one; an empty one never matches anyway.
  const int64_t longest = model.tokenizer == nullptr ? 0 : limits::kMaxStopStringCharacters;
  const ordered_json text = {{"type", "string"}, {"maxLength", longest}};
  return any_of({text, array_schema(text, 0, static_cast<int64_t>(spec.most))});
}

/// The template has its say, too: a role or a field may be more or less than it takes.
ordered_json messages_schema(const FieldSpec& spec) {
  static const ordered_json message = ordered_json::parse(R"json({
    "type": "object", "required": ["role"], "additionalProperties": true, "properties": {
      "role": {"type": "string"},
      "content": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {
        "type": "object", "required": ["type", "text"], "additionalProperties": true, "properties": {
          "type": {"const": "text"}, "text": {"type": "string"}}}}]}}})json");
  return array_schema(message, static_cast<int64_t>(spec.least), static_cast<int64_t>(spec.most));
}

ordered_json type_schema(const FieldSpec& spec, const ModelInfo& model, bool strict) {
  switch (spec.type) {
    case FieldType::kModel:
      return {{"type", "string"}, {"enum", {model.name}}};
    case FieldType::kString:
      return {{"type", "string"}};
    case FieldType::kBoolean:
      return {{"type", "boolean"}};
    case FieldType::kInteger:
      return integer_schema(static_cast<int64_t>(spec.least), static_cast<int64_t>(spec.most));
    case FieldType::kNumber:
      return {{"type", "number"}, {"minimum", spec.least}, {"maximum", spec.most}};
    case FieldType::kSeed:
      return {{"type", "integer"},
              {"minimum", std::numeric_limits<int64_t>::min()},
              {"maximum", std::numeric_limits<uint64_t>::max()}};
    case FieldType::kStringOrStrings:
      return stop_schema(spec, model);
    case FieldType::kTokenIds:
      return array_schema(token_schema(model), 0, static_cast<int64_t>(spec.most));
    case FieldType::kPrompt:
      return prompt_schema(model);
    case FieldType::kBias:
      return {{"type", "object"},
              {"patternProperties",
               {{"^(0|[1-9][0-9]{0,6})$", {{"type", "number"}, {"minimum", spec.least}, {"maximum", spec.most}}}}},
              {"additionalProperties", false},
              {"maxProperties", limits::kMaxLogitBias}};
    case FieldType::kStreamOptions:
      return object_schema(kStreamOptionFields, model, strict);
    case FieldType::kMessages:
      return messages_schema(spec);
    case FieldType::kArray:
      return array_schema(ordered_json::object(), static_cast<int64_t>(spec.least), static_cast<int64_t>(spec.most));
    case FieldType::kObject:
      return {{"type", "object"}};
    case FieldType::kAny:
      break;
  }
  return ordered_json::object();
}

void allow_null(ordered_json& schema) {
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  if (schema.contains("anyOf")) schema["anyOf"].push_back({{"type", "null"}});
  if (schema.contains("type")) schema["type"] = ordered_json::array({schema["type"], "null"});
}

/// The values of a refused field that change nothing.
ordered_json neutral_values(std::string_view texts) {
  ordered_json values = ordered_json::array({nullptr});
  while (!texts.empty()) {
    const size_t end = std::min(texts.find(' '), texts.size());
    values.push_back(ordered_json::parse(texts.substr(0, end)));
    texts.remove_prefix(std::min(end + 1, texts.size()));
  }
  return values;
}

ordered_json field_schema(const FieldSpec& spec, const ModelInfo& model, bool strict) {
  if (spec.use == FieldUse::kHarmless) return {{"description", "Accepted; changes nothing."}};
  if (spec.use == FieldUse::kRefused) {
    return {{"enum", neutral_values(spec.values)}, {"description", "Not supported: only what changes nothing."}};
  }
  ordered_json schema = type_schema(spec, model, strict);
  if (spec.use != FieldUse::kRequired) allow_null(schema);
  if (!spec.values.empty()) schema["default"] = ordered_json::parse(spec.values);
  schema["description"] = spec.help;
  return schema;
}

}  // namespace

ordered_json object_schema(std::span<const FieldSpec> table, const ModelInfo& model, bool strict) {
  ordered_json schema = {
      {"type", "object"}, {"required", ordered_json::array()}, {"properties", ordered_json::object()}};
  for (const FieldSpec& spec : table) {
    schema["properties"][std::string(spec.name)] = field_schema(spec, model, strict);
    if (spec.use == FieldUse::kRequired) schema["required"].push_back(spec.name);
  }
  schema["additionalProperties"] = !strict;
  return schema;
}

}  // namespace krait::api
