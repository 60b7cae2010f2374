// What the requests that are open at this coordinator hold, by client, and whether one more fits. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/fair_room.h"
#include "coordinator/requests/generation.h"

namespace krait::requests {

class OpenRequests final {
 public:
  /// A request's part; it is given back when this goes.
  struct Hold final {
    FairRoom::Hold sequences;
    FairRoom::Hold tokens;
  };

  OpenRequests(int64_t max_sequences, int64_t max_tokens) : sequences_(max_sequences), tokens_(max_tokens) {}

  /// Nothing where it does not fit (common/base/fair_room.h). Every Hold must go before this object.
  std::optional<Hold> take(const GenerationSpec& spec);

 private:
  FairRoom sequences_;
  FairRoom tokens_;
};

}  // namespace krait::requests
