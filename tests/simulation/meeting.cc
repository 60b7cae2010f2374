#include "tests/simulation/meeting.h"

#include <utility>

#include "tests/simulation/token_function.h"

namespace krait::simulation {

Result<Contribution> Meeting::result(size_t index) {
  if (failure_) return *failure_;
  const auto& round = rounds_.at(index);
  const Contribution& first = round.begin()->second;
  bool alike = true;
  for (const auto& [rank, contribution] : round) {
    if (contribution.size() != first.size()) {
      fail(Error{Errc::kProtocol, "ranks disagree about the operation", ""});
      return *failure_;
    }
    alike = alike && contribution == first;
  }
  Contribution sums = first;
  if (!alike) {
    // Every rank gets the same sum, and it means nothing: only the digests can tell.
    for (const auto& [rank, contribution] : round) {
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] = mix(sums[i], contribution[i]);
    }
  }
  if (++taken_[index] == attached_.size()) {
    taken_.erase(index);
    rounds_.erase(index);
  }
  return sums;
}

std::shared_ptr<Meeting> Meetings::find(const std::string& bootstrap, size_t world) {
  std::erase_if(meetings_, [](const auto& entry) { return entry.second.expired(); });
  auto meeting = meetings_[bootstrap].lock();
  if (meeting == nullptr) meetings_[bootstrap] = meeting = std::make_shared<Meeting>(world);
  return meeting;
}

}  // namespace krait::simulation
