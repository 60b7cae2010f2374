// The one place where ranks' parts are added: fp32, in a fixed order for every element, whatever lies around it.
#pragma once

#include <cstdint>
#include <span>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// out[count] = the sum of parts[p][count] over p in `order`; 1 to limits::kMaxWorld parts (tree order: 1, 2, 4 or 8).
/// `out` overlaps no part.
void sum_parts(ReduceOrder order, std::span<const float* const> parts, int64_t count, float* out);

}  // namespace krait::collectives
