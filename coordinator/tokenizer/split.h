// What becomes of the matches when a text is cut at them.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/tokenizer/json_part.h"
#include "coordinator/tokenizer/pattern.h"
#include "coordinator/tokenizer/pre_tokenizers.h"

namespace krait::tokenizer {

enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Reads the field "behavior"; an absent one is `absent`.
Result<SplitBehavior> split_behavior_field(const Json& part, SplitBehavior absent, const Where& where);

/// Cuts one piece. `stretches` cover it in order, counted from its first byte at `offset`; empty pieces are left out.
void append_split(const std::vector<Stretch>& stretches, SplitBehavior behavior, size_t offset,
                  std::vector<Pieces::Span>& out);

}  // namespace krait::tokenizer
