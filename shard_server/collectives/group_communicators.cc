#include "shard_server/collectives/group_communicators.h"

#include <fmt/format.h>

namespace krait::collectives {

Result<std::shared_ptr<GroupCommunicators>> GroupCommunicators::form(CommunicatorFactory factory,
                                                                     const Options& options,
                                                                     const std::optional<SubGroupRanks>& sub) {
  std::shared_ptr<GroupCommunicators> formed(new GroupCommunicators);
  ASSIGN_OR_RETURN(formed->group_, factory(options));
  if (!sub) return formed;
  Options inner = options;
  inner.name = fmt::format("{}.{}", options.name, sub->index);
  inner.rank = options.rank - sub->first;
  inner.world = sub->world;
  auto made = factory(inner);
  if (!made.ok()) {
    formed->group_->abort(to_string(made.error()));
    return made.error();
  }
  formed->sub_ = std::move(*made);
  return formed;
}

void GroupCommunicators::set_deadline_ns(int64_t deadline_ns) {
  group_->set_deadline_ns(deadline_ns);
  if (sub_) sub_->set_deadline_ns(deadline_ns);
}

void GroupCommunicators::abort(std::string_view reason) {
  group_->abort(reason);
  if (sub_) sub_->abort(reason);
}

Statistics GroupCommunicators::statistics() const {
  Statistics all = group_->statistics();
  if (!sub_) return all;
  const Statistics more = sub_->statistics();
  for (size_t op = 0; op < all.size(); ++op) {
    all[op].operations += more[op].operations;
    all[op].contributed_bytes += more[op].contributed_bytes;
    all[op].time_ns += more[op].time_ns;
    all[op].wait_ns += more[op].wait_ns;
  }
  return all;
}

}  // namespace krait::collectives
