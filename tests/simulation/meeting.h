// Where the ranks of one forming meet, as their communicator would have them meet: each step waits for all ranks, what
// they bring is combined, and whoever fails fails all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace krait::simulation {

/// What one rank brings to a step: a number for each run of the batch.
using Contribution = std::vector<uint64_t>;

class Meeting final {
 public:
  explicit Meeting(size_t world) : attached_(world, false), on_change_(world) {}

  /// `on_change` is called whenever something that a rank may wait for has changed.
  void attach(size_t rank, std::function<void()> on_change) {
    attached_.at(rank) = true;
    on_change_[rank] = std::move(on_change);
    changed();
  }
  /// A rank's process is gone, or has left. The others find out by waiting.
  void detach(size_t rank) { on_change_.at(rank) = nullptr; }

  bool complete() const {
    for (const bool attached : attached_) {
      if (!attached) return false;
    }
    return true;
  }

  /// The rank's `index`-th step.
  void contribute(size_t rank, size_t index, Contribution contribution) {
    rounds_[index].emplace(rank, std::move(contribution));
    changed();
  }
  bool round_complete(size_t index) const {
    const auto found = rounds_.find(index);
    return found != rounds_.end() && found->second.size() == attached_.size();
  }
  /// The sums of all ranks. Those that brought other batches disagree about the operation, which fails all.
  Result<Contribution> result(size_t index);

  void fail(Error error) {
    if (!failure_) failure_ = std::move(error);
    changed();
  }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  void changed() {
    for (const auto& on_change : on_change_) {
      if (on_change) on_change();
    }
  }

  std::vector<bool> attached_;
  std::vector<std::function<void()>> on_change_;  // by rank; empty once it is gone
  std::map<size_t, std::map<size_t, Contribution>> rounds_;
  std::map<size_t, size_t> taken_;  // how many ranks have had a round's result
  std::optional<Error> failure_;
};

/// The meetings of all groups, by the name that Form carries, which is never used twice.
class Meetings final {
 public:
  std::shared_ptr<Meeting> find(const std::string& bootstrap, size_t world);

 private:
  std::map<std::string, std::weak_ptr<Meeting>> meetings_;
};

}  // namespace krait::simulation
