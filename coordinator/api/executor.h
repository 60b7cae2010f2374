// Threads for the API's own work (JSON, tokenization), so that neither sockets nor the request core wait for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/limits.h"

namespace krait::api {

class Executor final {
 public:
  Executor(int threads, size_t max_waiting, int64_t max_waiting_bytes = limits::kMaxApiWorkBytes);
  /// Runs what waits, then ends.
  ~Executor();

  /// False when too much work waits already, by count or by `bytes`: what the work keeps in memory until it runs. An
  /// exception that leaves the work is logged and goes no further.
  bool post(std::function<void()> work, int64_t bytes = 0);

 private:
  struct Item final {
    std::function<void()> work;
    int64_t bytes = 0;
  };

  void run();

  const size_t max_waiting_;
  const int64_t max_waiting_bytes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> work_;
  int64_t waiting_bytes_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace krait::api
