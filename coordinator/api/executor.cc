#include "coordinator/api/executor.h"

#include <exception>
#include <utility>

#include "common/base/fair_room.h"
#include "common/base/log.h"

namespace krait::api {

Executor::Executor(int threads, size_t max_waiting, int64_t max_waiting_bytes)
    : max_waiting_(static_cast<int64_t>(max_waiting)), max_waiting_bytes_(max_waiting_bytes) {
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

bool Executor::post(const std::string& client, std::function<void()> work, int64_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    const auto known = clients_.find(client);
    const bool is_new = known == clients_.end();
    const int64_t own = is_new ? 0 : static_cast<int64_t>(known->second.work.size());
    const int64_t own_bytes = is_new ? 0 : known->second.bytes;
    // One large piece is taken when nothing else waits.
    const bool fits = waiting_ == 0 || has_fair_room(waiting_bytes_, own_bytes, bytes, max_waiting_bytes_);
    if (!fits || !has_fair_room(waiting_, own, 1, max_waiting_)) return false;
    if (is_new) turns_.push_back(client);
    Client& to = is_new ? clients_[client] : known->second;
    to.work.push_back({std::move(work), bytes});
    to.bytes += bytes;
    ++waiting_;
    waiting_bytes_ += bytes;
  }
  wake_.notify_one();
  return true;
}

std::function<void()> Executor::take() {
  const auto at = clients_.find(turns_.front());
  turns_.pop_front();
  Client& client = at->second;
  Item item = std::move(client.work.front());
  client.work.pop_front();
  client.bytes -= item.bytes;
  --waiting_;
  waiting_bytes_ -= item.bytes;
  if (client.work.empty()) {
    clients_.erase(at);
  } else {
    turns_.push_back(at->first);
  }
  return std::move(item.work);
}

void Executor::run() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || waiting_ > 0; });
      if (waiting_ == 0) return;
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
