// The leader's scheduler: continuous batching as a machine without threads, sockets or clock of its own. Requests and
// step results go in; step plans and messages to coordinators come out. The same calls in the same order give the same
// plans, so a seed reproduces a run.
//
// A plan is one flat batch: a decode row for every running sequence, then prefill rows, by turns between clients, until
// the step would pass --max-step-ms. Up to limits::kMaxPlansInFlight plans are made before their predecessors' results
// are known: the token between them stays on the ranks. Prefill that no running sequence waits for takes longer steps,
// one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "shard_server/scheduler/client_queue.h"
#include "shard_server/scheduler/page_pool.h"
#include "shard_server/scheduler/sequence.h"
#include "shard_server/scheduler/step_cost.h"
#include "shard_server/state/homes.h"

namespace krait::scheduler {

struct SchedulerOptions final {
  std::string model;        // served name; a Submit for another one is rejected
  std::string numerics_id;  // a Submit that asks for another one is rejected
  int64_t vocab_size = 0;
  uint32_t slots = 1;
  uint32_t kv_pages = 0;  // of keys and values; 0: the model has none
  uint32_t max_queue = limits::kDefaultMaxQueue;
  double max_step_ms = 50;
  int64_t max_step_rows = limits::kMaxStepRows;
  shard::Homes homes;                       // of ranks that hold the whole model each
  uint32_t prompt_ranks = 1;                // that share a long prompt when nobody else is there; at most homes.world
  int64_t least_step_deadline_ms = 10'000;  // of a step's collectives; longer where steps are long
};

struct Outgoing final {
  std::string peer;
  wire::Message message;
};

struct SchedulerStats final {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;     // rows of prompts that ran
  uint64_t generated_tokens = 0;  // tokens sent
  uint64_t rejected = 0;
  uint64_t cancelled = 0;
  uint64_t shared_prompt_tokens = 0;  // of prompt_tokens, those that ranks shared
  uint64_t non_finite = 0;            // sequences that ended because the model gave no numbers
};

class Scheduler final {
 public:
  Scheduler(SchedulerOptions options, const Clock& clock);

  /// Queues a sequence (answer: Accepted) or refuses it (answer: Rejected, with the field at fault or, when the queue
  /// is full or the group drains, a time after which to try again).
  void submit(const std::string& peer, wire::Submit submit);

  /// Ends a sequence: no plan made from now on holds it, its slot is free at once. Answered by Finished(kCancelled).
  /// A sequence that is not there has ended already; that is no error.
  void cancel(const std::string& peer, const wire::Cancel& cancel);

  /// Forgets every sequence of a coordinator that is gone for good. Nothing is sent to it.
  void drop_peer(const std::string& peer);

  /// Ends every sequence of a coordinator that is silent with `error`: should it speak again, it knows.
  void fail_peer(const std::string& peer, const Error& error);

  /// Accepts nothing from now on; what was accepted runs to its end.
  void drain() { draining_ = true; }
  bool drained() const { return draining_ && by_key_.empty() && in_flight_.empty(); }

  /// Ends sequences whose deadline has passed. Call regularly.
  void expire();

  /// The next plan, or nothing when there is no work or enough plans are in flight. `epoch` is left to the caller.
  std::optional<wire::Step> plan();

  /// The ranks' answers to that plan as one: what each says of its own sequences, in the order of the plan. Ranks that
  /// hold parts of the model all say the same.
  wire::StepDone merge(std::vector<wire::StepDone> answers) const;

  /// The result of the oldest plan in flight, on which all ranks agree. Error kProtocol, and nothing is changed, where
  /// it is no answer to that plan.
  Status step_done(const wire::StepDone& done);

  /// Ends everything with `error`: the group is lost.
  void fail_all(const Error& error);

  /// Messages to send since the last call, in order.
  std::vector<Outgoing> take_outgoing();

  uint32_t running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting() const { return queue_.waiting(); }
  uint32_t plans_in_flight() const { return static_cast<uint32_t>(in_flight_.size()); }
  uint32_t free_pages() const { return pages_.free(); }
  uint32_t used_pages() const { return pages_.total() - pages_.free(); }
  uint32_t free_slots() const { return static_cast<uint32_t>(free_slots_.size()); }
  double tokens_per_second() const { return tokens_per_second_; }
  /// How long what is open will take, if nothing more comes: prompts by the cost of rows, tokens as if each sequence
  /// used as much of its max_tokens as others did lately.
  double backlog_seconds() const;
  const SchedulerStats& stats() const { return stats_; }

 private:
  struct PlannedRun final {
    SequencePtr sequence;
    int32_t slot = -1;
    bool samples = false;  // brings one RowSample
    bool scores = false;   // brings one RowLogprobs
  };
  struct InFlight final {
    uint64_t step = 0;
    int64_t rows = 0;
    int64_t rank_rows = 0;  // of the rank that computes most of them
    int64_t prompt_rows = 0;
    bool shared = false;  // by ranks that hold the whole model
    bool lone = false;    // prefill alone, and longer than a step with decode rows may be
    std::vector<PlannedRun> runs;
  };

  std::optional<Error> refusal(const wire::Submit& submit) const;
  void plan_decodes(wire::Step& step, InFlight& record);
  void plan_prefills(wire::Step& step, InFlight& record);
  void plan_prefill_of(const SequencePtr& sequence, wire::Step& step, InFlight& record);
  int64_t shared_rows() const;
  int64_t most_rows_of_a_rank(const wire::Step& step, const InFlight& record) const;
  int32_t best_slot() const;
  int32_t slot_beside(int32_t other) const;
  void admit(const SequencePtr& sequence, int32_t slot, std::span<const int32_t> shared_pages, wire::Step& step);
  uint32_t fork_point(const wire::Submit& submit) const;
  void find_leader(const SequencePtr& sequence);
  void fork_followers(Sequence& source, int32_t fork_row, wire::Step& step);
  void release_followers(const SequencePtr& source);
  void take_token(Sequence& sequence);
  bool in_later_plan(const SequencePtr& sequence) const;
  Status check(const InFlight& record, const wire::StepDone& done) const;
  Status check_slots(const InFlight& record, const wire::StepDone& done) const;
  std::vector<SequencePtr> sequences_of(const std::string& peer) const;
  void observe(const InFlight& record, const wire::StepDone& done);
  void end(const SequencePtr& sequence, wire::FinishReason reason, const Error& error = {});
  void forget(const SequencePtr& sequence);
  void send(const std::string& peer, wire::Message message);

  const SchedulerOptions options_;
  const Clock& clock_;
  StepCost cost_;
  bool draining_ = false;
  uint64_t next_step_ = 1;
  ClientQueue queue_;                                    // prompts that are not wholly planned, waiting ones among them
  SequencePtr latest_leader_;                            // the latest sequence that follows no other; others may
  std::vector<SequencePtr> running_;                     // hold a slot, in order of admission
  std::map<SequenceKey, SequencePtr> by_key_;            // waiting and running
  std::set<std::pair<int64_t, SequenceKey>> deadlines_;  // of those that have one
  std::vector<int32_t> free_slots_;
  PagePool pages_;
  std::deque<InFlight> in_flight_;
  std::vector<Outgoing> outgoing_;
  int64_t tokens_to_come_ = 0;  // that may be generated for all that is open
  double used_share_ = 1;       // of their max_tokens, what sequences used lately
  double decode_step_ms_ = 0;   // of steps with decode rows, lately; 0: none yet
  double tokens_per_second_ = 0;
  SchedulerStats stats_;
};

}  // namespace krait::scheduler
