// What clients ask for at random.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/rng.h"
#include "coordinator/requests/generation.h"

namespace krait::simulation {

inline constexpr int64_t kPatientMs = 20'000;  // of a client that no deadline of its own ends

class Workload final {
 public:
  explicit Workload(uint64_t seed) : random_(seed) {}

  /// Any kind of request. No two sequences of one workload have the same seed and choice.
  requests::GenerationSpec any();
  /// One that nothing but a fault can keep from being answered.
  requests::GenerationSpec plain();

 private:
  requests::GenerationSpec sequence(size_t prompt_tokens, uint32_t max_tokens);
  SplitMix64 random_;
  uint64_t last_seed_ = 0;
};

}  // namespace krait::simulation
