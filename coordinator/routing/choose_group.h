// Which group runs a request. A wrong choice costs time, never correctness.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "common/base/result.h"

namespace krait::routing {

/// What there is to know of a group when a request comes.
struct Candidate final {
  std::string_view model;      // that it serves
  bool serving = false;        // reachable, formed and not draining
  double backlog_seconds = 0;  // work ahead, by its own word
  size_t open_sequences = 0;   // of this coordinator: what its word may not count yet
};

/// The index of the serving group of `model` with the least work ahead; among equals the first. Error: kUnavailable.
Result<size_t> choose_group(std::span<const Candidate> groups, std::string_view model);

}  // namespace krait::routing
