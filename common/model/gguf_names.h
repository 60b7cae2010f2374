// What a GGUF file's config and its reader (common/weights) agree on.
#pragma once

#include <string_view>

namespace krait {

/// Stands for the config that a GGUF file holds: its own keys, and two fields that only its tensors tell.
inline constexpr std::string_view kGgufType = "gguf";
inline constexpr std::string_view kGgufVocabField = "rows of token_embd.weight";
inline constexpr std::string_view kGgufHeadField = "has output.weight";  // else lm_head is the embedding

inline constexpr std::string_view kGgufEmbedding = "token_embd.weight";
inline constexpr std::string_view kGgufHead = "output.weight";

}  // namespace krait
