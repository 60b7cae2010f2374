// Ranks of one process in networks of their own, so that a link with a speed of its own can be put between them: a
// thread may enter a network namespace (ip netns) that its process is not in. Needs the rights of root.
#pragma once

#include <memory>
#include <string>

#include "shard_server/collectives/tcp_socket.h"
#include "shard_server/service/rank_model.h"

namespace krait::tools {

/// `model`, whose thread enters the network namespace `network` before it first meets the other ranks: its sockets are
/// of there. form() fails with kIo where that cannot be.
std::unique_ptr<shard::RankModel> make_network_rank(std::string network, std::unique_ptr<shard::RankModel> model);

/// Listens at `address` within the namespace, or where this thread is if that is empty.
Result<std::shared_ptr<collectives::TcpListener>> listen_in_network(const std::string& network,
                                                                    const std::string& address);

}  // namespace krait::tools
