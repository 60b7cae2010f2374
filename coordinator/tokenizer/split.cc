#include "coordinator/tokenizer/split.h"

#include <algorithm>
#include <array>
#include <utility>

namespace krait::tokenizer {

Result<SplitBehavior> split_behavior_field(const Json& part, SplitBehavior absent, const Where& where) {
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  if (part.is_object() && find_field(part, "behavior") == nullptr) return absent;
  ASSIGN_OR_RETURN(const std::string name, string_field(part, "behavior", where));
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  return unsupported(where.child("behavior"),
                     "must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void append_split(const std::vector<Stretch>& stretches, SplitBehavior behavior, size_t offset,
                  std::vector<Pieces::Span>& out) {
  std::vector<Pieces::Span> cut;
  const size_t count = stretches.size();
  bool previous_match = false;
  for (size_t i = 0; i < count; ++i) {
    // Merging with the next is merging with the previous, seen from the end.
    const Stretch& stretch = stretches[behavior == SplitBehavior::kMergedWithNext ? count - 1 - i : i];
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (stretch.match) continue;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
      case SplitBehavior::kMergedWithNext:
        join = stretch.match && !previous_match;
        break;
      case SplitBehavior::kContiguous:
        join = stretch.match == previous_match;
        break;
    }
    previous_match = stretch.match;
    if (join && !cut.empty()) {
      cut.back().begin = std::min(cut.back().begin, stretch.begin);
      cut.back().end = std::max(cut.back().end, stretch.end);
    } else {
      cut.push_back({stretch.begin, stretch.end});
    }
  }
  if (behavior == SplitBehavior::kMergedWithNext) std::reverse(cut.begin(), cut.end());
  for (const Pieces::Span& span : cut) {
    if (span.end > span.begin) out.push_back({span.begin + offset, span.end + offset});
  }
}

}  // namespace krait::tokenizer
