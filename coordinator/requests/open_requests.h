// What the requests that are open at this coordinator hold, by client, and whether one more fits. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "coordinator/requests/generation.h"

namespace krait::requests {

class OpenRequests final {
 public:
  /// A request's part; it is given back when this goes.
  using Hold = std::shared_ptr<const void>;

  OpenRequests(int64_t max_sequences, int64_t max_tokens) : max_sequences_(max_sequences), max_tokens_(max_tokens) {}

  /// Null where it does not fit (common/base/fair_room.h). Every Hold must go before this object.
  Hold take(const GenerationSpec& spec);

 private:
  class Held;
  struct Part final {
    int64_t sequences = 0;
    int64_t tokens = 0;
  };
  void give_back(const std::string& client, const Part& part);

  const int64_t max_sequences_;
  const int64_t max_tokens_;
  std::mutex mutex_;
  Part all_;
  std::map<std::string, Part> clients_;  // that hold anything
};

}  // namespace krait::requests
