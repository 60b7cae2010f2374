// The implementations of Communicator, by the names of collectives.def.
#pragma once

#include <span>
#include <string_view>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

struct Collective final {
  std::string_view name;
  CommunicatorFactory make = nullptr;
};

std::span<const Collective> all_collectives();

/// kNotFound, naming what there is, for an unknown name.
Result<CommunicatorFactory> find_collective(std::string_view name);

}  // namespace krait::collectives
