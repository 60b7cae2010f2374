// A /v1/chat/completions request, read, rendered by the model's template and tokenized: a completion of one prompt.
#pragma once

#include <string_view>

#include "coordinator/api/completion_request.h"

namespace krait::api {

/// Errors: kInvalidArgument (param the field: "messages[2].content[0].type"; the template's own words where it refuses
/// the conversation), kNotFound (model), and what the tokenizer refuses.
Result<CompletionRequest> read_chat_request(std::string_view body, const ModelInfo& model);

}  // namespace krait::api
