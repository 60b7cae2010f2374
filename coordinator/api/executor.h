// Threads for the API's own work (JSON, tokenization), so that neither sockets nor the request core wait for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace krait::api {

class Executor final {
 public:
  Executor(int threads, size_t max_waiting);
  /// Runs what waits, then ends.
  ~Executor();

  /// False when too much work waits already. An exception that leaves the work is logged and goes no further.
  bool post(std::function<void()> work);

 private:
  void run();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace krait::api
