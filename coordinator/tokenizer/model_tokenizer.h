// The tokenizer that comes with a model.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/weights/checkpoint.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {

/// The one inside a GGUF file, or the tokenizer.json of a folder; null where there is none. Errors are
/// load_gguf_tokenizer's and Tokenizer::load's.
Result<std::shared_ptr<const Tokenizer>> load_model_tokenizer(const Checkpoint& checkpoint);

}  // namespace krait::tokenizer
