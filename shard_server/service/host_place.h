// What a rank may take of the host that it shares with others: cores, spinning, memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/weights/checkpoint.h"
#include "shard_server/service/engine_rank.h"

namespace krait::shard {

/// A rank among those of all groups on its host.
struct HostPlace final {
  int64_t ranks = 1;
  int64_t index = 0;          // below ranks, another one for each; -1: not known
  std::string cpus = "auto";  // which cores its threads are bound to: auto, none, or a list as 0-3,8
};

/// Sets what `options` says of threads' cores, spinning and memory for states; its rank, world, dtype and threads are
/// there. "auto" binds threads where the host's ranks take more than half of the cores that they may use, and no more
/// than all: on fewer, another cluster may run beside them and would choose the same ones. Errors: make_partition's;
/// kInvalidArgument where the list is none, names cores that are not allowed, or has fewer of them than threads.
Status share_host(RankOptions& options, const Checkpoint& checkpoint, std::span<const double> shares,
                  const HostPlace& place);

}  // namespace krait::shard
