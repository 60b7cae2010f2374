// A group whose ranks are threads of one process. They meet in a hub that holds the block they share.
#pragma once

#include <memory>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// The meeting place of one group: made before its ranks, given to each in Options::hub, good for one forming.
std::shared_ptr<LoopbackHub> make_loopback_hub();

/// See CommunicatorFactory. Blocks until all ranks of the hub have come, so each rank calls it on its own thread.
Result<std::unique_ptr<Communicator>> make_loopback_communicator(const Options& options);

}  // namespace krait::collectives
