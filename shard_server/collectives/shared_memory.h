// A group whose ranks are processes of one host. They share one segment of /dev/shm, named after group and epoch, which
// rank 0 makes and which loses its name as soon as all ranks have mapped it: nothing stays behind, whoever dies when.
#pragma once

#include <memory>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// See CommunicatorFactory. Rank 0 may come after the others. kResourceExhausted names the bytes that /dev/shm lacks.
Result<std::unique_ptr<Communicator>> make_shared_memory_communicator(const Options& options);

}  // namespace krait::collectives
