#include "shard_server/service/shard_loop.h"

#include <utility>

#include "common/wire/addresses.h"
#include "shard_server/service/leader_loop.h"
#include "shard_server/service/rank_loop.h"

namespace krait::shard {

Result<GroupEndpoints> open_endpoints(transport::Transport& transport, const std::string& run_dir,
                                      const std::string& group, const wire::Join& join) {
  GroupEndpoints endpoints;
  const std::string ranks = wire::ranks_address(run_dir, group);
  if (join.rank == 0) {
    ASSIGN_OR_RETURN(endpoints.ranks, transport.bind(ranks));
    ASSIGN_OR_RETURN(endpoints.coordinators, transport.bind(wire::leader_address(run_dir, group)));
  } else {
    ASSIGN_OR_RETURN(endpoints.ranks, transport.connect(ranks, peer_name({join.rank, join.incarnation})));
  }
  return endpoints;
}

std::unique_ptr<ShardLoop> make_shard_loop(LoopOptions options, const LoopTools& tools) {
  if (options.join.rank == 0) return std::make_unique<LeaderLoop>(std::move(options), tools);
  return std::make_unique<RankLoop>(std::move(options), tools);
}

}  // namespace krait::shard
