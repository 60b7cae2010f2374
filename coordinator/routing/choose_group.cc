#include "coordinator/routing/choose_group.h"

#include <utility>

namespace krait::routing {

Result<size_t> choose_group(std::span<const Candidate> groups, std::string_view model) {
  const Candidate* best = nullptr;
  const auto load = [](const Candidate& group) { return std::pair(group.backlog_seconds, group.open_sequences); };
  for (const Candidate& group : groups) {
    if (!group.serving || group.model != model) continue;
    if (best == nullptr || load(group) < load(*best)) best = &group;
  }
  if (best != nullptr) return static_cast<size_t>(best - groups.data());
  return Error{Errc::kUnavailable, "no group is serving this model at the moment", ""};
}

}  // namespace krait::routing
