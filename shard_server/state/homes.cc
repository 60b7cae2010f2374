#include "shard_server/state/homes.h"

namespace krait::shard {
namespace {

int reader(const Homes& homes, const wire::StepRun& run, int part) {
  const int parts = static_cast<int>(run.ranks);
  return (homes.of(run.sequence_slot) + part + 1 + homes.world - parts) % homes.world;
}

}  // namespace

int first_reader(const Homes& homes, const wire::StepRun& run) {
  return reader(homes, run, 0);
}

PromptPart prompt_part(const Homes& homes, const wire::StepRun& run) {
  const int parts = static_cast<int>(run.ranks);
  const auto rows = static_cast<int64_t>(run.tokens.size());
  for (int part = 0; part < parts; ++part) {
    if (reader(homes, run, part) != homes.rank) continue;
    PromptPart mine;
    mine.first = rows * part / parts;
    mine.rows = rows * (part + 1) / parts - mine.first;
    if (part > 0) mine.before = reader(homes, run, part - 1);
    if (part + 1 < parts) mine.after = reader(homes, run, part + 1);
    return mine;
  }
  return {};
}

}  // namespace krait::shard
