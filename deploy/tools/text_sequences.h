// A file of text as the sequences that a model foretells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/weights/checkpoint.h"

namespace krait::tools {

/// The file through the model's own tokenizer, as sequences_of() cuts it. kNotFound where the model has no tokenizer,
/// kIo or kNotFound of the file, kCorrupt, naming it, where it is no text that the model can read.
Result<std::vector<std::vector<int32_t>>> read_sequences(const std::string& path, const Checkpoint& checkpoint,
                                                         int64_t context);

/// The first of them, with `tokens` that are foretold in all, or fewer where there are no more.
std::vector<std::vector<int32_t>> first_tokens(std::vector<std::vector<int32_t>> sequences, int64_t tokens);

}  // namespace krait::tools
