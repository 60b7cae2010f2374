// A whole cluster in one test process: the coordinator's request core, the leader, and P ranks as threads that talk
// through loopback collectives. One clock that the test moves; every message goes through the codec. The test's thread
// pumps in rounds and waits for the ranks in each, so a seed reproduces a run: with `jitter` the seed also decides how
// many messages of each link arrive in a round.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "coordinator/requests/request_core.h"
#include "shard_server/service/engine_rank.h"
#include "shard_server/service/leader.h"
#include "shard_server/service/rank_worker.h"
#include "tests/support/cluster/engine_group.h"
#include "tests/support/cluster/recording_sink.h"

namespace krait::test {

struct LoopbackClusterOptions final {
  std::string model_dir;
  int world = 1;
  int threads = 1;  // of a rank
  DType dtype = DType::kF32;
  std::string codec = "exact";  // of hidden sums
  uint32_t slots = 4;
  uint32_t max_queue = 256;
  double max_step_ms = 50;  // the clock stands still while a step runs, so a row counts as half a millisecond
  uint64_t seed = 1;
  bool jitter = false;
  bool keep_logits = false;  // every row is then gathered whole
  bool with_tokenizer = true;
};

/// Throws std::runtime_error where something cannot go on, so that the test fails and says why.
class LoopbackCluster final {
 public:
  explicit LoopbackCluster(const LoopbackClusterOptions& options);
  ~LoopbackCluster();

  static constexpr const char* kModel = "demo";

  /// Starts a request; its model is filled in.
  std::pair<requests::RequestId, std::shared_ptr<RecordingSink>> submit(requests::GenerationSpec spec);
  void cancel(requests::RequestId id) { core_->cancel(id); }

  /// One round: every message that may arrive does, every rank runs what it has got.
  void pump();
  /// Rounds until `done`; throws after `most_rounds`.
  void pump_until(const std::function<bool()>& done, int most_rounds = 20'000);
  /// Rounds until no request is open and no plan is in flight.
  void pump_until_idle();
  /// Moves the clock on in steps of at most limits::kHeartbeatNs, with a round after each.
  void advance(int64_t ns);

  /// Nothing of this rank (not 0) arrives or is delivered any more, as if its machine was cut off.
  void drop_rank(int rank) { ranks_.at(static_cast<size_t>(rank)).cut = true; }
  /// A new process takes the rank's place.
  void restart_rank(int rank);
  /// The coordinator's messages are lost from now on.
  void drop_coordinator() { coordinator_cut_ = true; }
  /// A new coordinator of the same name, which knows nothing; requests of the old one are forgotten.
  void restart_coordinator();

  shard::Leader& leader() { return *leader_; }
  requests::RequestCore& core() { return *core_; }
  const ManualClock& clock() const { return clock_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  bool serving() const;

  /// With keep_logits: those after the token at `position` of the sequence that holds or last held `slot`.
  std::vector<float> logits(int32_t slot, uint32_t position) const;
  /// The state of a slot, whole.
  shard::WholeState state(int32_t slot) const;
  /// Plans that rank 0 was given, in order.
  const std::vector<wire::Step>& steps() const { return steps_; }

 private:
  using Link = std::deque<std::vector<std::byte>>;
  struct Rank final {
    wire::Join join;
    bool cut = false;
    bool formed = false;
    uint64_t formed_epoch = 0;  // of the latest Form and Load: the leader says them again while it waits
    uint64_t loaded_epoch = 0;
    int64_t last_said_ns = 0;
    Link to_rank;
    Link to_leader;
    shard::Engine* engine = nullptr;  // while loaded
    std::unique_ptr<shard::RankWorker> worker;
  };

  void start_rank(int rank);
  void start_coordinator();
  shard::LeaderOptions leader_options(const wire::Join& self);
  size_t arrivals(const Link& link);
  void pump_coordinator();
  void pump_leader();
  void pump_ranks();
  void deliver_to(Rank& rank, const wire::Message& message);
  void run_commands();
  void take_answers();
  void wait_for_ranks();
  void tap(shard::Engine& engine, int rank);

  const LoopbackClusterOptions options_;
  ManualClock clock_{1};
  SplitMix64 random_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::string name_;  // of the group: no other cluster of this process has it
  uint64_t incarnations_ = 0;
  std::unique_ptr<requests::RequestCore> core_;
  std::unique_ptr<shard::Leader> leader_;
  bool coordinator_cut_ = false;
  Link to_leader_;
  Link to_coordinator_;
  requests::RequestId next_request_ = 1;

  std::mutex mutex_;  // over what the ranks' threads write
  std::vector<std::pair<size_t, wire::Message>> answers_;
  std::map<std::pair<uint64_t, int32_t>, std::vector<float>> logits_;  // (step, row of its batch)
  uint64_t running_step_ = 0;                                          // the one that rank 0 is running

  std::vector<wire::Step> steps_;
  std::vector<Rank> ranks_;  // last: its threads use what is above
};

/// A spec of one sequence. Greedy unless changed.
requests::GenerationSpec one_sequence(std::vector<int32_t> tokens, uint32_t max_tokens);

}  // namespace krait::test
