// The leader of a group as a machine: it forms the group, lets the scheduler run on it, compares what the ranks say,
// and gives the group up when one of them is lost. No thread, socket or clock of its own.
//
//   kWaiting --all ranks joined, alike--> kLoading --all ready--> kServing --drain()--> kDraining, for good
//      ^----- a rank failed, fell silent or disagreed: ----------------'
//      |      everything open ends with an error
//      '----- a rank says that it will stop: kDraining until what is open has ended
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "shard_server/scheduler/scheduler.h"

namespace krait::shard {

struct LeaderOptions final {
  std::string group;
  std::string model;  // served name
  uint32_t world = 1;
  wire::Join self;              // what rank 0 itself would say: the others must match it
  std::vector<double> shares;   // speeds of the ranks, for their parts of the model; empty: equal parts
  bool whole_weights = false;   // every rank holds the whole model, and its own sequences
  uint32_t prompt_ranks = 0;    // of those, how many share a long prompt; 0: all
  std::string codec = "exact";  // of hidden sums, where the plan says nothing else
  wire::CollectivePlan plan;
  std::string transport = "shared_memory";  // of collectives
  std::string address;                      // of rank 0's collectives, where the transport needs one
  uint32_t slots = 0;                       // 0: by the ranks' memory
  uint32_t max_queue = limits::kDefaultMaxQueue;
  double max_step_ms = 50;
  int64_t vocab_size = 0;
  uint64_t incarnation = 0;
  std::function<uint64_t()> new_epoch;  // random, never used twice
};

struct ToRank final {
  uint32_t rank = 0;
  wire::Message message;
};

/// What happened to a step on all ranks, for metrics.
struct LeaderStats final {
  uint64_t epochs = 0;
  uint64_t digest_mismatches = 0;
  uint64_t groups_lost = 0;
};

class Leader final {
 public:
  Leader(LeaderOptions options, const Clock& clock);

  void from_rank(uint32_t rank, wire::Message message);
  /// The process of this rank is gone, or what it is told does not arrive; `how` continues "rank 1 ...".
  void lose_rank(uint32_t rank, const std::string& how);
  void from_coordinator(const std::string& peer, wire::Message message);
  /// Heartbeats, lost peers, deadlines. At least every limits::kHeartbeatNs.
  void tick();
  /// Accepts nothing more; done when drained().
  void drain();
  bool drained() const;
  /// The end: open sequences end with an error, ranks are told to leave.
  void leave();

  std::vector<ToRank> take_rank_messages();
  std::vector<scheduler::Outgoing> take_coordinator_messages();
  /// Set when the group was given up since the last call: the local rank's collectives must be aborted.
  std::optional<std::string> take_abort();

  wire::GroupState state() const { return state_; }
  const scheduler::Scheduler* scheduler() const { return scheduler_.get(); }
  const LeaderStats& stats() const { return stats_; }
  wire::Status status() const;

 private:
  struct Rank final {
    std::optional<wire::Join> join;
    std::optional<wire::Ready> ready;
    int64_t last_heard_ns = 0;
  };
  struct StepInFlight final {
    int64_t deadline_ms = 0;
    int64_t begun_ns = 0;  // when it was planned, or its predecessor was done
    std::vector<wire::StepDone> dones;
  };
  struct Coordinator final {
    uint64_t incarnation = 0;
    int64_t last_heard_ns = 0;
  };

  void on_join(uint32_t rank, wire::Join join);
  void on_ready(uint32_t rank, wire::Ready ready);
  void on_step_done(uint32_t rank, wire::StepDone done);
  std::optional<Error> mismatch(const wire::Join& join) const;
  void on_leaving(uint32_t rank);
  void turn_away(uint32_t rank, const std::string& why);
  void form_if_complete();
  void form();
  void serve();
  void give_up(const std::string& why);
  void end_group(const std::string& why);
  void say_hello(const std::string& peer, uint64_t incarnation);
  bool is_silent(const Rank& rank) const;
  void drop_silent_ranks();
  void drop_silent_coordinators(int64_t now_ns);
  void settle_steps();
  void look_for_lost_messages();
  void pump();
  std::string missing_ranks() const;
  void tell_all_ranks(const wire::Message& message);
  void tell_all_coordinators();
  void set_state(wire::GroupState state, std::string detail);

  const LeaderOptions options_;
  const Clock& clock_;
  wire::GroupState state_ = wire::GroupState::kWaiting;
  std::string detail_;
  bool draining_ = false;
  std::string lost_by_;                 // why the group was given up last, until it serves again
  std::optional<std::string> leaving_;  // a rank will go: the group ends once what is open has ended
  int64_t form_after_ns_ = 0;           // a model that cannot be loaded is not tried in a tight loop
  uint64_t epoch_ = 0;
  std::vector<Rank> ranks_;
  std::map<std::string, Coordinator> coordinators_;  // by peer name
  std::unique_ptr<scheduler::Scheduler> scheduler_;  // while serving or draining
  wire::Form form_;                                  // of the epoch
  std::map<uint64_t, StepInFlight> steps_;           // by number: planned, and not answered by every rank yet
  int64_t last_heartbeat_ns_ = 0;
  int64_t last_status_ns_ = 0;
  std::pair<uint32_t, uint32_t> told_load_;  // running and waiting, as coordinators know them
  std::optional<std::string> abort_;
  std::vector<ToRank> to_ranks_;
  std::vector<scheduler::Outgoing> to_coordinators_;
  LeaderStats stats_;
};

}  // namespace krait::shard
