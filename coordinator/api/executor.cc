#include "coordinator/api/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/log.h"
#include "common/base/thread.h"

namespace krait::api {

Executor::Executor(size_t max_waiting, int64_t max_waiting_bytes)
    : max_waiting_bytes_(max_waiting_bytes), places_(static_cast<int64_t>(max_waiting)), bytes_(max_waiting_bytes) {}

// The other constructor has made an executor already, so where a thread cannot be had, the destructor ends the others.
Executor::Executor(int threads, size_t max_waiting, int64_t max_waiting_bytes)
    : Executor(max_waiting, max_waiting_bytes) {
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i)
    threads_.push_back(start_thread("the API's work", [this] { run(); }));
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

bool Executor::post(const std::string& client, std::function<void()> work, int64_t bytes) {
  auto place = places_.take(client, 1);
  // A piece that is larger than all that may wait is taken when nothing else does.
  auto room = bytes_.take(client, std::min(bytes, max_waiting_bytes_));
  if (!place || !room) return false;
  {
    const std::scoped_lock lock(mutex_);
    std::deque<Item>& own = waiting_[client];
    if (own.empty()) turns_.push_back(client);
    own.push_back({std::move(work), *std::move(place), *std::move(room)});
  }
  wake_.notify_one();
  return true;
}

std::function<void()> Executor::take() {
  const auto at = waiting_.find(turns_.front());
  turns_.pop_front();
  std::function<void()> work = std::move(at->second.front().work);
  at->second.pop_front();
  if (at->second.empty()) {
    waiting_.erase(at);
  } else {
    turns_.push_back(at->first);
  }
  return work;
}

void Executor::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !turns_.empty(); });
      if (turns_.empty()) return;
      work = take();
    }
    try {
      work();
    } catch (const std::exception& error) {
      log_error("api: work was given up: {}", error.what());
    }
  }
}

}  // namespace krait::api
