// Executes the leader's commands for one rank, strictly in order, on a thread of its own: the socket thread only moves
// bytes, so heartbeats go on while a step runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "kernels/device/stream.h"
#include "shard_server/collectives/group_communicators.h"
#include "shard_server/engine/engine.h"

namespace krait::shard {

struct RankOptions final {
  int rank = 0;
  int world = 1;
  DType dtype = DType::kF32;
  int threads = 1;
  bool may_spin = false;           // threads and collectives: not when cores are short
  uint32_t slots = 0;              // 0: by memory
  int64_t state_memory_bytes = 0;  // for slots == 0
  collectives::CommunicatorFactory communicator = nullptr;
  std::shared_ptr<collectives::LoopbackHub> (*hub_of)(const std::string& bootstrap) = nullptr;  // loopback only
  std::function<void(Engine&)> on_load;                                                         // for tests: taps
};

/// What has been loaded, for metrics.
struct RankFigures final {
  std::string numerics_id;
  int64_t weight_bytes = 0;
  int64_t state_bytes = 0;
  int64_t nonfinite_weights = 0;
  collectives::Statistics collectives{};
};

/// One rank's commands as function calls. Everything but abort() belongs to one thread.
class RankExecutor final {
 public:
  RankExecutor(RankOptions options, std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock);
  ~RankExecutor();

  /// Runs one command; the answer, if it has one: Load -> Ready, Step -> StepDone, any -> Failed. Commands of another
  /// epoch than the one formed are dropped. After Failed the rank holds nothing until the next Form.
  std::optional<wire::Message> execute(const wire::Message& command);

  /// Ends whatever collective runs or comes, with an error. From any thread.
  void abort(const std::string& reason);

  /// While true, forming a group ends at once with an error: it is already known that it will be left. From any thread.
  void set_leaving(bool leaving) { leaving_ = leaving; }

  RankFigures figures() const;

 private:
  std::optional<wire::Message> run(const wire::Form& form);
  std::optional<wire::Message> run(const wire::Load& load);
  std::optional<wire::Message> run(const wire::Step& step);
  std::optional<wire::Message> run(const wire::Leave& leave);
  Result<wire::Ready> load_engine(const wire::Load& load);
  Status form_communicators();
  void drop();

  const RankOptions options_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const Clock& clock_;
  std::optional<wire::Form> form_;
  std::unique_ptr<Engine> engine_;

  std::atomic<bool> leaving_ = false;
  mutable std::mutex mutex_;  // over what follows: abort() and figures() come from other threads
  std::shared_ptr<collectives::GroupCommunicators> communicators_;
  RankFigures figures_;
};

/// The executor on its thread, behind a bounded queue.
class RankWorker final {
 public:
  /// `answer` is called on the worker's thread with every answer.
  RankWorker(std::unique_ptr<RankExecutor> executor, std::function<void(wire::Message)> answer);
  ~RankWorker();

  /// False when limits::kMaxRankCommands wait already: the leader has lost count, so the group must be formed anew. A
  /// Leave takes the place of whatever waits: all of it is of the group that ends.
  bool post(wire::Message command);
  void abort(const std::string& reason) { executor_->abort(reason); }
  /// Whether every command posted so far has been run and answered. For tests, which pump in rounds.
  bool idle() const;
  RankFigures figures() const { return executor_->figures(); }

 private:
  void run();

  std::unique_ptr<RankExecutor> executor_;
  std::function<void(wire::Message)> answer_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<wire::Message> commands_;
  bool running_ = false;  // a command was taken and is not answered yet
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace krait::shard
