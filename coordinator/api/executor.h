// Threads for the API's own work (JSON, tokenization), so that neither sockets nor the request core wait for it.
// Clients take turns at them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/fair_room.h"
#include "common/base/limits.h"

namespace krait::api {

class Executor final {
 public:
  /// Throws std::system_error where a thread cannot be had.
  Executor(int threads, size_t max_waiting, int64_t max_waiting_bytes = limits::kMaxApiWorkBytes);
  /// Runs what waits, then ends.
  ~Executor();

  /// False when too much work waits already for this client to add some (common/base/fair_room.h), by count or by
  /// `bytes`: what the work keeps in memory until it runs. An exception that leaves the work is logged and goes no
  /// further.
  bool post(const std::string& client, std::function<void()> work, int64_t bytes = 0);

 private:
  Executor(size_t max_waiting, int64_t max_waiting_bytes);

  struct Item final {
    std::function<void()> work;
    FairRoom::Hold place;
    FairRoom::Hold bytes;
  };

  void run();
  std::function<void()> take();

  const int64_t max_waiting_bytes_;
  FairRoom places_;
  FairRoom bytes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::deque<Item>> waiting_;  // by client
  std::deque<std::string> turns_;                    // clients in waiting_, whose turn is next first
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace krait::api
