// The fields of every request body, as tables: the parser's and the API's description's one truth.
#pragma once

#include <array>

#include "common/base/limits.h"
#include "coordinator/api/fields.h"

namespace krait::api {

inline constexpr std::array<FieldSpec, 0> kNoFields{};

#define REQUIRED(name, type, least, most, help) \
  {#name, FieldUse::kRequired, FieldType::type, least, double(most), "", help},
#define USED(name, type, least, most, value, help) \
  {#name, FieldUse::kUsed, FieldType::type, least, double(most), value, help},
#define HARMLESS(name, help) {#name, FieldUse::kHarmless, FieldType::kAny, 0, 0, "", help},
#define REFUSED(name, values) {#name, FieldUse::kRefused, FieldType::kAny, 0, 0, values, ""},

inline constexpr auto kCompletionFields = [] {
  using namespace limits;  // NOLINT(google-build-using-namespace): the tables name limits, and this ends with them
  return std::to_array<FieldSpec>({
#include "coordinator/api/completion_fields.def"
  });
}();

inline constexpr auto kChatFields = [] {
  using namespace limits;  // NOLINT(google-build-using-namespace): the tables name limits, and this ends with them
  return std::to_array<FieldSpec>({
#include "coordinator/api/chat_fields.def"
  });
}();

#undef REQUIRED
#undef USED
#undef HARMLESS
#undef REFUSED

/// Of the object under "stream_options".
inline constexpr auto kStreamOptionFields = std::to_array<FieldSpec>({
    {"include_usage", FieldUse::kUsed, FieldType::kBoolean, 0, 0, "false", "a last event that tells what was used"},
    {"include_obfuscation", FieldUse::kHarmless, FieldType::kAny, 0, 0, "", ""},
    {"continuous_usage_stats", FieldUse::kRefused, FieldType::kAny, 0, 0, "false", ""},
});

/// Of /tokenize and /detokenize, as vLLM has them.
inline constexpr auto kTokenizeFields = std::to_array<FieldSpec>({
    {"model", FieldUse::kUsed, FieldType::kModel, 0, 0, "", "a served model's name"},
    {"prompt", FieldUse::kRequired, FieldType::kString, 0, 0, "", "the text"},
    {"add_special_tokens", FieldUse::kUsed, FieldType::kBoolean, 0, 0, "true", "as for completions"},
    {"return_token_strs", FieldUse::kUsed, FieldType::kBoolean, 0, 0, "false", "also each token's text"},
    {"messages", FieldUse::kRefused, FieldType::kAny, 0, 0, "", ""},
});
inline constexpr auto kDetokenizeFields = std::to_array<FieldSpec>({
    {"model", FieldUse::kUsed, FieldType::kModel, 0, 0, "", "a served model's name"},
    {"tokens", FieldUse::kRequired, FieldType::kTokenIds, 0, limits::kMaxPromptTokens, "", "token ids"},
});

}  // namespace krait::api
