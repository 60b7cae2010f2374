// What a run of one seed leaves behind: what went wrong, what occurred, and, when asked for, a line for every event.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/units.h"

namespace krait::simulation {

class Record final {
 public:
  Record(const Clock& clock, bool keep_trace) : clock_(clock), keep_trace_(keep_trace) {}

  /// A line of the trace. The format is only filled in when a trace is kept.
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (keep_trace_) add(fmt::format(format, std::forward<Args>(args)...));
  }

  bool keeps_trace() const { return keep_trace_; }

  /// An invariant does not hold.
  void wrong(std::string what) {
    if (keep_trace_) add("WRONG: " + what);
    if (wrongs_.size() < kMostWrongs) wrongs_.push_back(std::move(what));
  }

  /// Something that random runs are expected to meet has occurred.
  void saw(const std::string& kind) { seen_.insert(kind); }

  const std::vector<std::string>& wrongs() const { return wrongs_; }
  const std::set<std::string>& seen() const { return seen_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static constexpr size_t kMostWrongs = 20;

  void add(const std::string& line) {
    lines_.push_back(fmt::format("{:>12.6f} {}", static_cast<double>(clock_.now_ns()) / 1e9, line));
  }

  const Clock& clock_;
  const bool keep_trace_;
  std::vector<std::string> wrongs_;
  std::set<std::string> seen_;
  std::vector<std::string> lines_;
};

}  // namespace krait::simulation
