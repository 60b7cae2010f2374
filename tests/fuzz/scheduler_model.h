// What must hold of a scheduler whatever happens, kept beside it: the ranks' side (slots, rows, positions) and the
// coordinators' side (every request ends once, tokens in order). Breaches are failed CHECKs.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "shard_server/scheduler/scheduler.h"
#include "tests/fuzz/harness.h"

namespace krait::fuzz {

class SchedulerModel final {
 public:
  static constexpr int32_t kVocab = 256;

  SchedulerModel(uint32_t slots, uint32_t max_queue, double max_step_ms, int64_t max_step_rows);

  uint64_t new_number() { return ++last_number_; }
  /// One of the latest numbers given out; 0 before the first.
  uint64_t old_number(uint64_t back) const { return last_number_ - std::min(last_number_, back % 16); }

  void submit(const std::string& peer, wire::Submit submit);
  void cancel(const std::string& peer, uint64_t number, uint32_t keep);
  void advance_ms(int64_t ms);
  void drop_peer(const std::string& peer);
  void fail_peer(const std::string& peer);
  void drain();
  /// The next plan; true when there is one.
  bool plan();
  /// The ranks answer the oldest plan, after `step_us`.
  void step_done(int64_t step_us);
  /// An answer that is none to the oldest plan is refused and changes nothing.
  void wrong_step_done(uint8_t how);
  /// A rank is lost: everything ends.
  void lose_rank();

  void check_balance() const;
  void run_to_the_end();

 private:
  using Key = std::pair<std::string, uint64_t>;

  struct Request final {
    wire::Submit submit;
    int64_t deadline_ns = 0;
    bool ended = false;     // a Finished was sent, or its coordinator is forgotten
    uint32_t planned = 0;   // tokens whose sampling was planned, earlier ones included
    uint32_t received = 0;  // tokens sent, earlier ones included
    uint32_t scored = 0;    // prompt logprobs sent
    uint32_t position = 0;  // rows planned
    bool stopped = false;   // a rank has sampled a stop id
  };
  using RequestPtr = std::shared_ptr<Request>;

  struct Flying final {
    wire::Step step;
    std::vector<RequestPtr> owners;  // of the runs
  };

  RequestPtr find(const std::string& peer, uint64_t number) const;
  RequestPtr admitted(const wire::Admission& admission) const;
  void check_run(const wire::StepRun& run, Request& request);
  void check_taps(const wire::Step& step, const wire::StepRun& run, int64_t first_row, const Request& source,
                  std::set<int32_t>& used);
  wire::StepDone answer(const Flying& flying, int64_t step_us);
  void take();
  void take_tokens(const std::string& peer, const wire::Tokens& tokens);
  void take_finished(const std::string& peer, const wire::Finished& finished);
  void end_all_of(const std::string& peer);

  const uint32_t slots_;
  const uint32_t max_queue_;
  const int64_t max_step_rows_;
  ManualClock clock_{1'000'000'000};
  std::optional<scheduler::Scheduler> scheduler_;
  bool draining_ = false;
  uint64_t last_number_ = 0;
  uint64_t last_step_ = 0;
  std::map<Key, RequestPtr> open_;            // accepted and not ended
  std::map<Key, wire::Submit> asked_;         // submitted, not answered yet
  std::vector<RequestPtr> by_seed_;           // every request that was ever accepted; its seed is its index
  std::map<int32_t, RequestPtr> slot_owner_;  // by admissions
  std::deque<Flying> flying_;
};

}  // namespace krait::fuzz
