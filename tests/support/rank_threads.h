// A group of ranks as threads of the test: every thread makes its communicator and runs the same function.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "shard_server/collectives/communicator.h"
#include "shard_server/collectives/loopback.h"
#include "shard_server/collectives/tcp_socket.h"

namespace krait::collectives {

/// Options of one forming that no other test shares: group name, epoch, hub and listener.
inline Options fresh_options(int world, ReduceOrder order) {
  Options options;
  options.name = "test-" + std::to_string(getpid());
  options.epoch = random_u64();
  options.world = world;
  options.order = order;
  options.hub = make_loopback_hub();
  options.listener = TcpListener::open("127.0.0.1:0").value();
  options.address = options.listener->address();
  return options;
}

/// Runs `options_of(rank)` through `make` and `body` on one thread a rank; the ranks' results. An error in making one
/// is the rank's result.
inline std::vector<Status> run_ranks(CommunicatorFactory make, int world,
                                     const std::function<Options(int rank)>& options_of,
                                     const std::function<Status(Communicator&)>& body) {
  std::vector<Status> results(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = make(options_of(rank));
      results[static_cast<size_t>(rank)] = made.ok() ? body(**made) : Status(made.error());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return results;
}

/// The same with `options` for all.
inline std::vector<Status> run_ranks(CommunicatorFactory make, const Options& options,
                                     const std::function<Status(Communicator&)>& body) {
  return run_ranks(
      make, options.world,
      [&](int rank) {
        Options mine = options;
        mine.rank = rank;
        return mine;
      },
      body);
}

}  // namespace krait::collectives
