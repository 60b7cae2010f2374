#include "shard_server/service/rank_worker.h"

#include <utility>

#include "common/base/limits.h"

namespace krait::shard {

RankWorker::RankWorker(std::unique_ptr<RankExecutor> executor, std::function<void(wire::Message)> answer)
    : executor_(std::move(executor)), answer_(std::move(answer)), thread_([this] { run(); }) {}

RankWorker::~RankWorker() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    executor_->set_leaving(true);
  }
  wake_.notify_one();
  executor_->abort("this rank is shutting down");
  thread_.join();
}

bool RankWorker::post(wire::Message command) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::holds_alternative<wire::Leave>(command)) {
      commands_.clear();
      executor_->set_leaving(true);
    }
    if (commands_.size() >= static_cast<size_t>(limits::kMaxRankCommands)) return false;
    commands_.push_back(std::move(command));
  }
  wake_.notify_one();
  return true;
}

bool RankWorker::idle() const {
  const std::scoped_lock lock(mutex_);
  return commands_.empty() && !running_;
}

void RankWorker::run() {
  while (true) {
    wire::Message command;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !commands_.empty(); });
      if (stop_) return;
      command = std::move(commands_.front());
      commands_.pop_front();
      running_ = true;
      if (std::holds_alternative<wire::Leave>(command) && !stop_) executor_->set_leaving(false);
    }
    if (auto answer = executor_->execute(command)) answer_(*std::move(answer));
    const std::scoped_lock lock(mutex_);
    running_ = false;
  }
}

}  // namespace krait::shard
