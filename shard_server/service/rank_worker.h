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

#include "common/wire/messages.h"
#include "shard_server/service/rank_model.h"

namespace krait::shard {

/// Runs a rank's commands one after another, away from the caller.
class CommandRunner {
 public:
  virtual ~CommandRunner() = default;

  /// False when limits::kMaxRankCommands wait already: the leader has lost count, so the group must be formed anew. A
  /// Leave takes the place of whatever waits: all of it is of the group that ends.
  virtual bool post(wire::Message command) = 0;
  /// Ends whatever collective runs or comes, with an error.
  virtual void abort(const std::string& reason) = 0;
  virtual RankFigures figures() const = 0;
};

/// One rank's commands as function calls: which are answered, and with what.
class RankExecutor final {
 public:
  RankExecutor(uint32_t rank, std::unique_ptr<RankModel> model) : rank_(rank), model_(std::move(model)) {}

  // What waits. Two threads may use these, one at a time: the caller locks.

  /// CommandRunner::post.
  bool post(wire::Message command);
  /// The next to execute.
  std::optional<wire::Message> take();
  /// Nothing more will be taken: forming a group ends at once with an error.
  void stop();
  bool idle() const { return commands_.empty(); }

  // The rest belongs to the thread that executes, but for abort() and figures(), which are for any.

  /// Runs one command; the answer, if it has one: Load -> Ready, Step -> StepDone, any -> Failed. Commands of another
  /// epoch than the one formed are dropped. After Failed the rank holds nothing until the next Form.
  std::optional<wire::Message> execute(const wire::Message& command);

  void abort(const std::string& reason) { model_->abort(reason); }
  RankFigures figures() const { return model_->figures(); }

 private:
  std::optional<wire::Message> run(const wire::Form& form);
  std::optional<wire::Message> run(const wire::Load& load);
  std::optional<wire::Message> run(const wire::Step& step);
  void drop();

  const uint32_t rank_;
  const std::unique_ptr<RankModel> model_;
  std::deque<wire::Message> commands_;
  bool stopped_ = false;
  std::atomic<bool> leaving_ = false;  // a Leave waits: it is already known that a group being formed will be left
  std::optional<uint64_t> epoch_;      // of the group formed
  bool loaded_ = false;
};

/// The executor on a thread.
class RankWorker final : public CommandRunner {
 public:
  /// `answer` is called on the worker's thread with every answer.
  RankWorker(std::unique_ptr<RankExecutor> executor, std::function<void(wire::Message)> answer);
  ~RankWorker() override;

  bool post(wire::Message command) override;
  void abort(const std::string& reason) override { executor_->abort(reason); }
  RankFigures figures() const override { return executor_->figures(); }
  /// Whether every command posted so far has been run and answered. For tests, which pump in rounds.
  bool idle() const;

 private:
  void run();

  std::unique_ptr<RankExecutor> executor_;
  std::function<void(wire::Message)> answer_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = false;  // a command was taken and is not answered yet
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace krait::shard
