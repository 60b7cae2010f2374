// A rank without an engine behind the real RankExecutor: it keeps a number for a state, samples by token_function.h,
// and tells the runner beforehand what it would wait for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "shard_server/engine/sequence_table.h"
#include "shard_server/service/rank_model.h"
#include "tests/simulation/meeting.h"

namespace krait::simulation {

struct RankShape final {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t slots = 4;
  uint32_t max_rows = 64;
  uint32_t kv_pages = 0;  // of keys and values; 0: a model without any
};

class SimulatedRank final : public shard::RankModel {
 public:
  /// `on_change`: something that the current command may wait for has changed.
  SimulatedRank(RankShape shape, Meetings& meetings, std::function<void()> on_change)
      : shape_(shape), meetings_(meetings), on_change_(std::move(on_change)) {}
  ~SimulatedRank() override { leave_meeting(); }

  /// The command is begun: what the peers wait for is there.
  void begin(const wire::Message& command);
  /// Whether nothing is waited for any more: the command can be executed, be it to fail.
  bool settled(const wire::Message& command) const;
  /// It has waited for too long.
  void expire();
  /// The next load fails.
  void fail_next_load() { load_fails_ = true; }
  /// What the next step will say it took.
  void set_step_us(int64_t step_us) { step_us_ = step_us; }

  Status form(const wire::Form& form, const std::atomic<bool>& leaving) override;
  Result<wire::Ready> load(const wire::Load& load) override;
  Result<wire::StepDone> step(const wire::Step& step) override;
  void drop() override;
  void abort(const std::string& reason) override;
  shard::RankFigures figures() const override { return {}; }

 private:
  struct RunState final {
    std::vector<uint64_t> rows;  // the state after each row
  };

  bool may_run(const wire::Step& step) const { return loaded_ && epoch_ == step.epoch; }
  Status validate(const wire::Step& step);
  Status validate_pages(const wire::Step& step);
  uint64_t* kept(std::span<const int32_t> pages, size_t position);
  void lay_out(const wire::Step& step);
  void answer_run(const wire::StepRun& run, const RunState& state, wire::StepDone& done);
  void take_taps(const wire::Step& step);
  void leave_meeting();

  const RankShape shape_;
  Meetings& meetings_;
  const std::function<void()> on_change_;
  std::shared_ptr<Meeting> meeting_;
  std::optional<uint64_t> epoch_;
  bool loaded_ = false;
  bool load_fails_ = false;
  int64_t step_us_ = 0;
  size_t rounds_ = 0;             // steps begun in this meeting
  std::optional<Error> refused_;  // the step that has begun breaks the contract
  std::vector<shard::SequenceRecord> records_;
  std::vector<std::vector<uint64_t>> histories_;  // by slot: the state after each token; the last one is the slot's
  std::vector<uint64_t> kept_;                    // in pages, by token's place: the state after it, as keys and values
  std::vector<RunState> runs_;                    // of the step that has begun
};

}  // namespace krait::simulation
