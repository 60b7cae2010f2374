#include "deploy/tools/text_sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/file.h"
#include "common/base/limits.h"
#include "coordinator/tokenizer/model_tokenizer.h"
#include "deploy/tools/perplexity.h"

namespace krait::tools {

Result<std::vector<std::vector<int32_t>>> read_sequences(const std::string& path, const Checkpoint& checkpoint,
                                                         int64_t context) {
  ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::load_model_tokenizer(checkpoint));
  if (tokenizer == nullptr) {
    return Error{
        Errc::kNotFound,
        fmt::format("{} has no tokenizer{}", checkpoint.directory(), checkpoint.gguf() == nullptr ? ".json" : ""),
        "model"};
  }
  ASSIGN_OR_RETURN(const std::string text, read_text_file(path, limits::kMaxEncodeBytes));
  const auto tokens = tokenizer->encode(text, {.add_special_tokens = false});
  if (!tokens.ok()) return Error{Errc::kCorrupt, fmt::format("{}: {}", path, tokens.error().message), path};
  for (const int32_t token : *tokens) {
    if (token < checkpoint.config().vocab_size) continue;
    return Error{Errc::kCorrupt,
                 fmt::format("{} has token {}; the model's vocabulary ends before it, at {}", path, token,
                             checkpoint.config().vocab_size),
                 path};
  }
  auto sequences = sequences_of(*tokens, checkpoint.config(), context);
  if (!sequences.ok()) return Error{Errc::kCorrupt, fmt::format("{}: {}", path, sequences.error().message), path};
  return sequences;
}

std::vector<std::vector<int32_t>> first_tokens(std::vector<std::vector<int32_t>> sequences, int64_t tokens) {
  int64_t left = tokens;
  size_t kept = 0;
  for (; kept < sequences.size() && left > 0; ++kept) {
    auto& sequence = sequences[kept];
    // The first one begins the sequence.
    sequence.resize(static_cast<size_t>(std::min(std::ssize(sequence), left + 1)));
    left -= std::ssize(sequence) - 1;
  }
  sequences.resize(kept);
  return sequences;
}

}  // namespace krait::tools
