// A rank with an engine: the only place where engines and communicators are made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "shard_server/collectives/group_communicators.h"
#include "shard_server/engine/engine.h"
#include "shard_server/service/rank_model.h"

namespace krait::shard {

struct RankOptions final {
  int rank = 0;
  int world = 1;
  bool whole_weights = false;  // of every rank of the group
  bool may_overlap = true;     // where sums travel between hosts, they do while half of the rows are computed
  DType dtype = DType::kF32;
  int threads = 1;
  std::vector<int> cpus;                               // its threads are bound to these; none: they are not bound
  int node = -1;                                       // its memory comes from there; -1: from anywhere
  bool may_spin = false;                               // where each thread of the host's ranks has a core
  uint32_t slots = 0;                                  // 0: by memory
  int64_t state_memory_bytes = 0;                      // for slots == 0
  std::shared_ptr<collectives::TcpListener> listener;  // of rank 0, where the leader has an address for it
  std::shared_ptr<collectives::LoopbackHub> (*hub_of)(const std::string& name) = nullptr;  // loopback only
  std::function<void(Engine&)> on_load;                                                    // for tests: taps

  /// Into how many parts the model is cut, and which of them is this rank's.
  int parts() const { return whole_weights ? 1 : world; }
  int part() const { return whole_weights ? 0 : rank; }
};

class EngineRank final : public RankModel {
 public:
  EngineRank(RankOptions options, std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock);
  ~EngineRank() override;

  Status form(const wire::Form& form, const std::atomic<bool>& leaving) override;
  Result<wire::Ready> load(const wire::Load& load) override;
  Result<wire::StepDone> step(const wire::Step& step) override;
  void drop() override;
  void abort(const std::string& reason) override;
  RankFigures figures() const override;

 private:
  const RankOptions options_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const Clock& clock_;
  std::optional<wire::Form> form_;
  std::unique_ptr<Engine> engine_;

  mutable std::mutex mutex_;  // over what follows: abort() and figures() come from other threads
  std::shared_ptr<collectives::GroupCommunicators> communicators_;
  RankFigures figures_;
};

}  // namespace krait::shard
