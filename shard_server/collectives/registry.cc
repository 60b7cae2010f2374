#include "shard_server/collectives/registry.h"

#include <array>

#include "shard_server/collectives/loopback.h"
#include "shard_server/collectives/shared_memory.h"
#include "shard_server/collectives/tcp.h"

namespace krait::collectives {
namespace {

constexpr auto kCollectives = std::to_array<Collective>({
#define COLLECTIVE(name, factory) {name, factory},
#include "shard_server/collectives/collectives.def"
#undef COLLECTIVE
});

}  // namespace

std::span<const Collective> all_collectives() {
  return kCollectives;
}

Result<CommunicatorFactory> find_collective(std::string_view name) {
  std::string known;
  for (const Collective& collective : kCollectives) {
    if (collective.name == name) return collective.make;
    known += known.empty() ? "" : ", ";
    known += collective.name;
  }
  return Error{Errc::kNotFound, fmt::format("no collectives are named \"{}\"; there are: {}", name, known),
               "collectives"};
}

}  // namespace krait::collectives
