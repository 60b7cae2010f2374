// What a shard server does over and over, as a machine that is given turns: bytes come from the transport, commands go
// to the runner. Whoever gives the turns waits in between, for at most limits::kCoreTickNs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/transport/transport.h"
#include "common/wire/messages.h"
#include "shard_server/service/leader.h"
#include "shard_server/service/rank_worker.h"
#include "shard_server/service/shard_metrics.h"

namespace krait::shard {

struct LoopOptions final {
  std::string group = "g0";
  std::string run_dir;  // where the group's sockets are
  wire::Join join;      // what this rank says of itself
  double drain_seconds = 30;
  LeaderOptions leader;  // rank 0 only
};

/// The group's sockets at this rank.
struct GroupEndpoints final {
  transport::EndpointId ranks = -1;         // rank 0: bound; others: connected to the leader
  transport::EndpointId coordinators = -1;  // rank 0 only
};
Result<GroupEndpoints> open_endpoints(transport::Transport& transport, const std::string& run_dir,
                                      const std::string& group, const wire::Join& join);

/// What the loop works with; all of it outlives the loop.
struct LoopTools final {
  const Clock& clock;
  transport::Transport& transport;
  GroupEndpoints endpoints;
  CommandRunner& runner;
  ShardMetrics& metrics;
};

class ShardLoop {
 public:
  virtual ~ShardLoop() = default;

  /// One turn. `answers` are the runner's since the last one. `stop_requests` above 0: ends once what was open has
  /// ended; above 1: at once. Returns how it ended, when it did: an error says why this rank cannot go on.
  virtual std::optional<Status> turn(int stop_requests, std::vector<wire::Message> answers) = 0;

  /// Rank 0 only, else null.
  virtual const Leader* leader() const { return nullptr; }
};

std::unique_ptr<ShardLoop> make_shard_loop(LoopOptions options, const LoopTools& tools);

}  // namespace krait::shard
