#include "coordinator/api/executor.h"

#include <exception>
#include <utility>

#include "common/base/log.h"

namespace krait::api {

Executor::Executor(int threads, size_t max_waiting, int64_t max_waiting_bytes)
    : max_waiting_(max_waiting), max_waiting_bytes_(max_waiting_bytes) {
  for (int i = 0; i < threads; ++i)
    threads_.emplace_back([this] { run(); });
}

Executor::~Executor() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_)
    thread.join();
}

bool Executor::post(std::function<void()> work, int64_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    // One large piece is taken when nothing else waits.
    const bool too_large = !work_.empty() && waiting_bytes_ + bytes > max_waiting_bytes_;
    if (work_.size() >= max_waiting_ || too_large) return false;
    waiting_bytes_ += bytes;
    work_.push_back({std::move(work), bytes});
  }
  wake_.notify_one();
  return true;
}

void Executor::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !work_.empty(); });
      if (work_.empty()) return;
      work = std::move(work_.front().work);
      waiting_bytes_ -= work_.front().bytes;
      work_.pop_front();
    }
    try {
      work();
    } catch (const std::exception& error) {
      log_error("api: work was given up: {}", error.what());
    }
  }
}

}  // namespace krait::api
