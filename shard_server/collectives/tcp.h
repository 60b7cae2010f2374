// A group whose ranks are processes of several hosts. See tcp_mesh.h for how they find each other and tcp_signals.h for
// what travels.
#pragma once

#include <memory>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// See CommunicatorFactory. Options::address is where rank 0 listens, with Options::listener.
Result<std::unique_ptr<Communicator>> make_tcp_communicator(const Options& options);

}  // namespace krait::collectives
