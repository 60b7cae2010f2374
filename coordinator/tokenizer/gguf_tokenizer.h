// The tokenizer that a GGUF file holds.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/weights/gguf.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::tokenizer {

/// Such a file has tokens, their types, and merges ("gpt2") or scores ("llama"); the rest of the pipeline goes by a
/// name (tokenizer.ggml.pre). It becomes the tokenizer.json that Hugging Face publishes for such a model. Null where
/// the file has none. Errors name the file: kUnsupported for a kind or a name that is not known here; kCorrupt; and
/// what Tokenizer::parse says of the whole.
Result<std::shared_ptr<const Tokenizer>> load_gguf_tokenizer(const GgufFile& file);

}  // namespace krait::tokenizer
