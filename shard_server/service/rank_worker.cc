#include "shard_server/service/rank_worker.h"

#include <utility>

#include "common/base/thread.h"

namespace krait::shard {

RankWorker::RankWorker(std::unique_ptr<RankExecutor> executor, std::function<void(wire::Message)> answer)
    : executor_(std::move(executor)),
      answer_(std::move(answer)),
      thread_(start_thread("this rank's steps", [this] { run(); })) {}

RankWorker::~RankWorker() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    executor_->stop();
  }
  wake_.notify_one();
  executor_->abort("this rank is shutting down");
  thread_.join();
}

bool RankWorker::post(wire::Message command) {
  {
    const std::scoped_lock lock(mutex_);
    if (!executor_->post(std::move(command))) return false;
  }
  wake_.notify_one();
  return true;
}

bool RankWorker::idle() const {
  const std::scoped_lock lock(mutex_);
  return executor_->idle() && !running_;
}

void RankWorker::run() {
  while (true) {
    std::optional<wire::Message> command;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !executor_->idle(); });
      if (stop_) return;
      command = executor_->take();
      running_ = true;
    }
    if (auto answer = executor_->execute(*command)) answer_(*std::move(answer));
    const std::scoped_lock lock(mutex_);
    running_ = false;
  }
}

}  // namespace krait::shard
