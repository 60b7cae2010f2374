// Which process speaks for a rank. A second one with the same number must not replace the first while that lives, nor
// wait longer than it must once the first is gone. A machine without threads or sockets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace krait::shard {

/// One process that says it is a rank: its number, and the random number that it drew when it started.
struct RankPeer final {
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  friend bool operator==(const RankPeer&, const RankPeer&) = default;
  friend auto operator<=>(const RankPeer&, const RankPeer&) = default;
};

/// The name that it connects with.
std::string peer_name(const RankPeer& peer);
std::optional<RankPeer> rank_of_peer(std::string_view name);

class RankPlaces final {
 public:
  explicit RankPlaces(const Clock& clock) : clock_(clock) {}

  enum class Verdict {
    kHolds,    // what it says is what its rank says
    kWaits,    // it is not known yet whether the process that holds the place still lives
    kRefused,  // that one does: tell this one
  };

  /// A message of `peer` has come. A free place is taken, and one whose holder is silent for limits::kPeerTimeoutNs.
  Verdict heard(const RankPeer& peer);

  /// The transport does not reach the holder any more: its process is gone, and with it what it was sent.
  void lost(uint32_t rank) { places_.erase(rank); }

  /// Who has the place, if anybody.
  std::optional<RankPeer> holder(uint32_t rank) const;

 private:
  struct Place final {
    uint64_t incarnation = 0;
    int64_t last_heard_ns = 0;
    std::map<uint64_t, int64_t> rivals;  // when each was first heard of; at most limits::kMaxRankRivals
  };

  const Clock& clock_;
  std::map<uint32_t, Place> places_;  // by rank, below limits::kMaxWorld
};

}  // namespace krait::shard
