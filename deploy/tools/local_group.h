// The ranks of a group as threads of this process: the engine, the communicators and the rules of a host that shard
// servers have, without sockets and a leader between.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "shard_server/engine/engine.h"
#include "shard_server/service/rank_worker.h"

namespace krait::tools {

struct LocalGroupOptions final {
  int ranks = 1;
  int threads = 1;  // of each rank
  DType dtype = DType::kF32;
  uint32_t slots = 1;
  bool whole_weights = false;   // every rank holds the whole model, and its own sequences
  uint32_t prompt_ranks = 0;    // of those, how many share a long prompt; 0: all
  std::string codec = "exact";  // of hidden sums (shard_server/collectives/codecs.def), but for what the plan says
  wire::CollectivePlan plan;
  bool may_overlap = true;  // of sums between hosts with computation
  std::string address;      // where rank 0 listens, "10.0.0.1:7100": sums travel over TCP. Empty: through memory
  std::vector<std::string> networks;  // namespaces, by rank (network_rank.h); or none
};

/// Sets the codec and the plan by `mode` and the plan's file, as shard servers do (service/collective_plan.h); the
/// ranks and the type of the weights are there.
Status choose_sums(LocalGroupOptions& options, const std::string& mode, const std::string& plan_path,
                   const Checkpoint& checkpoint);

/// Used by one thread.
class LocalGroup final {
 public:
  /// Forms the group and loads the model. Errors are those of the ranks.
  static Result<std::unique_ptr<LocalGroup>> start(std::shared_ptr<const Checkpoint> checkpoint,
                                                   const LocalGroupOptions& options, const Clock& clock);
  ~LocalGroup();

  /// Gives a step to every rank; its epoch is filled in. At most limits::kMaxPlansInFlight are under way.
  void post(wire::Step step);
  /// Waits for the oldest step under way: every rank's answer. kInternal where their digests differ.
  Result<std::vector<wire::StepDone>> wait();
  /// post() and wait(): rank 0's answer.
  Result<wire::StepDone> step(wire::Step step);

  int ranks() const { return static_cast<int>(workers_.size()); }
  shard::Homes homes() const { return {0, whole_weights_ ? ranks() : 1}; }
  uint32_t prompt_ranks() const { return prompt_ranks_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  /// What all ranks have: the least of their slots, rows and pages; the weights of all together.
  const wire::Ready& ready() const { return ready_; }
  /// Of one rank, while no step is under way.
  shard::Engine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  /// What one rank's collectives have cost since the start.
  collectives::Statistics collectives(int rank) const;

 private:
  LocalGroup(std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock);
  Status start_ranks(const LocalGroupOptions& options);
  Status load(const LocalGroupOptions& options);
  Result<wire::Message> answer_of(size_t rank);

  const std::shared_ptr<const Checkpoint> checkpoint_;
  const Clock& clock_;
  const uint64_t epoch_;
  std::string address_;  // where rank 0 listens, if it does
  bool whole_weights_ = false;
  uint32_t prompt_ranks_ = 1;
  wire::Ready ready_;
  std::vector<shard::Engine*> engines_;  // by rank
  std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<std::deque<wire::Message>> answers_;           // by rank, in order
  std::vector<std::unique_ptr<shard::RankWorker>> workers_;  // last: their threads use what is above
};

}  // namespace krait::tools
