// Where sequences live when every rank holds the whole model, and how such ranks share one long prompt.
#pragma once

#include <cstdint>

#include "common/wire/messages.h"

namespace krait::shard {

/// The state of a sequence is in the slot of one rank, its home, which runs all its rows; the other ranks keep that
/// slot free. Ranks that hold parts of the model hold parts of every state: then `world` is 1.
struct Homes final {
  int rank = 0;
  int world = 1;

  int of(int32_t slot) const { return slot % world; }
  bool here(int32_t slot) const { return of(slot) == rank; }
};

/// One rank's part of a run that `run.ranks` ranks share. Parts follow each other through the ranks and end at the
/// sequence's home, so that its state stays where it decodes.
struct PromptPart final {
  int64_t first = 0;  // row of the run
  int64_t rows = 0;   // 0: the rank has no part
  int before = -1;    // rank with the part before; -1: this is the first
  int after = -1;     // rank with the part after; -1: this is the last
};
PromptPart prompt_part(const Homes& homes, const wire::StepRun& run);

/// The rank with the first part.
int first_reader(const Homes& homes, const wire::StepRun& run);

}  // namespace krait::shard
