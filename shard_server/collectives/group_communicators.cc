#include "shard_server/collectives/group_communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "shard_server/collectives/loopback.h"
#include "shard_server/collectives/tcp_socket.h"

namespace krait::collectives {
namespace {

/// Between hosts, a sub-group's first rank listens for the others; it tells all where, and each takes in what concerns
/// it.
Status meet(Communicator& group, const Options& options, const SubGroupRanks& sub, Options& inner) {
  if (options.address.empty()) return {};
  using Address = std::array<char, 64>;  // ends with 0
  Address mine{};
  inner.listener = nullptr;
  if (options.rank == sub.first) {
    ASSIGN_OR_RETURN(inner.listener, TcpListener::open_towards(options.address));
    const std::string& address = inner.listener->address();
    std::copy_n(address.begin(), std::min(address.size(), mine.size() - 1), mine.begin());
  }
  std::vector<Address> all(static_cast<size_t>(options.world));
  RETURN_IF_ERROR(group.all_gather(sizeof mine, mine.data(), all.data()));
  inner.address = all[static_cast<size_t>(sub.first)].data();
  return {};
}

}  // namespace

Result<std::shared_ptr<GroupCommunicators>> GroupCommunicators::form(CommunicatorFactory factory,
                                                                     const Options& options,
                                                                     const std::optional<SubGroupRanks>& sub) {
  std::shared_ptr<GroupCommunicators> formed(new GroupCommunicators);
  ASSIGN_OR_RETURN(formed->group_, factory(options));
  if (!options.address.empty() && options.world > 1) {
    const SubGroupRanks all{.first = 0, .world = options.world, .index = 0};
    ASSIGN_OR_RETURN(formed->small_, formed->form_inner(factory, options, all, "small"));
  }
  if (!sub) return formed;
  ASSIGN_OR_RETURN(formed->sub_, formed->form_inner(factory, options, *sub, fmt::format("{}", sub->index)));
  return formed;
}

Result<std::unique_ptr<Communicator>> GroupCommunicators::form_inner(CommunicatorFactory factory,
                                                                     const Options& options, const SubGroupRanks& ranks,
                                                                     std::string_view suffix) {
  Options inner = options;
  inner.name = fmt::format("{}.{}", options.name, suffix);
  inner.rank = options.rank - ranks.first;
  inner.world = ranks.world;
  // All ranks meet where the group itself did.
  const Status found = ranks.world == options.world ? Status{} : meet(*group_, options, ranks, inner);
  if (!found.ok()) {
    group_->abort(to_string(found.error()));
    return found.error();
  }
  auto made = factory(inner);
  if (!made.ok()) group_->abort(to_string(made.error()));
  return made;
}

Result<std::shared_ptr<GroupCommunicators>> GroupCommunicators::form_alone(CommunicatorFactory factory,
                                                                           const Options& options) {
  std::shared_ptr<GroupCommunicators> formed(new GroupCommunicators);
  Options peers = options;
  peers.order = ReduceOrder::kRankOrder;  // any world; nothing is added
  ASSIGN_OR_RETURN(formed->peers_, factory(peers));
  Options alone;
  alone.name = options.name;
  alone.epoch = options.epoch;
  alone.clock = options.clock;
  alone.hub = make_loopback_hub();
  ASSIGN_OR_RETURN(formed->group_, make_loopback_communicator(alone));
  return formed;
}

void GroupCommunicators::set_deadline_ns(int64_t deadline_ns) {
  for (Communicator* communicator : all()) {
    if (communicator != nullptr) communicator->set_deadline_ns(deadline_ns);
  }
}

void GroupCommunicators::abort(std::string_view reason) {
  for (Communicator* communicator : all()) {
    if (communicator != nullptr) communicator->abort(reason);
  }
}

Statistics GroupCommunicators::statistics() const {
  Statistics sum{};
  for (const Statistics& of_codec : codec_statistics())
    add_statistics(of_codec, sum);
  return sum;
}

CodecStatistics GroupCommunicators::codec_statistics() const {
  CodecStatistics sum{};
  for (const Communicator* communicator : all()) {
    if (communicator == nullptr) continue;
    const CodecStatistics more = communicator->codec_statistics();
    for (size_t codec = 0; codec < sum.size(); ++codec)
      add_statistics(more[codec], sum[codec]);
  }
  return sum;
}

}  // namespace krait::collectives
