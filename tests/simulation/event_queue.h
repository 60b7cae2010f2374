// Simulated time: work that is due, in order. The only clock of a simulation, and its only loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace krait::simulation {

class EventQueue final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }

  /// Calls `work` at `time_ns`, or now if that has passed; what is due at the same time comes in the order of the
  /// calls.
  void at(int64_t time_ns, std::function<void()> work) {
    events_.push_back({std::max(time_ns, now_ns_), next_number_++, std::move(work)});
    std::push_heap(events_.begin(), events_.end(), later);
  }
  void after(int64_t delay_ns, std::function<void()> work) { at(now_ns_ + delay_ns, std::move(work)); }

  /// Runs what is due up to `until_ns`, which is the time afterwards.
  void run_until(int64_t until_ns) {
    while (!events_.empty() && events_.front().time_ns <= until_ns) {
      std::pop_heap(events_.begin(), events_.end(), later);
      const Event event = std::move(events_.back());
      events_.pop_back();
      now_ns_ = event.time_ns;
      event.work();
    }
    now_ns_ = std::max(now_ns_, until_ns);
  }

 private:
  struct Event final {
    int64_t time_ns = 0;
    uint64_t number = 0;
    std::function<void()> work;
  };
  static bool later(const Event& a, const Event& b) {
    return std::pair(a.time_ns, a.number) > std::pair(b.time_ns, b.number);
  }

  int64_t now_ns_ = 1;
  uint64_t next_number_ = 0;
  std::vector<Event> events_;  // a heap
};

}  // namespace krait::simulation
