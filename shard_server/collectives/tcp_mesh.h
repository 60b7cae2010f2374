// How the ranks of a TCP group find each other. Rank 0 listens at an address that all know; the others say Hello there,
// learn from rank 0 where each of them listens, and connect in pairs. Between two ranks there are two connections: one
// for data, and one for the single word with which a rank fails the group, which so never waits behind data.
//
// Hello names group, epoch, world, rank and options. Whoever does not know the group's name and its random epoch is
// refused and disturbs nobody; whoever does but has other options, or comes twice, fails the forming for all.
#pragma once

#include <array>

#include "common/base/limits.h"
#include "shard_server/collectives/block.h"
#include "shard_server/collectives/tcp_socket.h"

namespace krait::collectives {

/// One rank's connections, by peer; its own are not open.
struct TcpMesh final {
  std::array<Fd, limits::kMaxWorld> data;
  std::array<Fd, limits::kMaxWorld> control;
};

/// Returns when every rank has all its connections, or with the errors of a CommunicatorFactory.
Result<TcpMesh> form_tcp_mesh(const Options& options, const BlockConfig& config, const Patience& patience);

}  // namespace krait::collectives
