// What one rank talks through: all ranks of its group, and those with which it shares a part of the model.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// Neighbouring ranks within a group that add for themselves.
struct SubGroupRanks final {
  int first = 0;
  int world = 1;
  int index = 0;  // among the sub-groups
};

/// abort() fails all of them, so that no rank waits in the one for a peer that was lost in another.
class GroupCommunicators final {
 public:
  /// Forms the group's communicator with `options`, then the sub-group's and small() with the same ones. Errors are the
  /// factory's.
  static Result<std::shared_ptr<GroupCommunicators>> form(CommunicatorFactory factory, const Options& options,
                                                          const std::optional<SubGroupRanks>& sub);

  /// Of ranks that hold the whole model each: alone in their sums, with the others as peers.
  static Result<std::shared_ptr<GroupCommunicators>> form_alone(CommunicatorFactory factory, const Options& options);

  Communicator& group() { return *group_; }
  /// All ranks, also where each adds alone.
  Communicator& peers() { return peers_ ? *peers_ : *group_; }
  /// The same ranks, for small sums that overtake a large one that is on its way: between hosts.
  Communicator& small() { return small_ ? *small_ : *group_; }
  Communicator* sub() { return sub_.get(); }

  void set_deadline_ns(int64_t deadline_ns);
  void abort(std::string_view reason);
  /// Of all of them together.
  Statistics statistics() const;
  CodecStatistics codec_statistics() const;

 private:
  GroupCommunicators() = default;

  std::array<Communicator*, 4> all() const { return {group_.get(), small_.get(), sub_.get(), peers_.get()}; }
  Result<std::unique_ptr<Communicator>> form_inner(CommunicatorFactory factory, const Options& options,
                                                   const SubGroupRanks& ranks, std::string_view suffix);

  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Communicator> small_;  // or null: group_
  std::unique_ptr<Communicator> sub_;    // or null
  std::unique_ptr<Communicator> peers_;  // or null: those of group_
};

}  // namespace krait::collectives
