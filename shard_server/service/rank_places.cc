#include "shard_server/service/rank_places.h"

#include <fmt/format.h>

#include <charconv>

#include "common/base/limits.h"

namespace krait::shard {
namespace {

constexpr std::string_view kPrefix = "rank-";

/// Takes a number off the front of `text`.
template <class T>
bool take_number(std::string_view& text, T& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string peer_name(const RankPeer& peer) {
  return fmt::format("{}{}-{:016x}", kPrefix, peer.rank, peer.incarnation);
}

std::optional<RankPeer> rank_of_peer(std::string_view name) {
  RankPeer peer;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (!take_number(name, peer.rank, 10) || peer.rank >= static_cast<uint32_t>(limits::kMaxWorld)) return std::nullopt;
  if (!name.starts_with('-')) return std::nullopt;
  name.remove_prefix(1);
  if (!take_number(name, peer.incarnation, 16) || !name.empty()) return std::nullopt;
  return peer;
}

RankPlaces::Verdict RankPlaces::heard(const RankPeer& peer) {
  const int64_t now_ns = clock_.now_ns();
  const auto [found, is_new] = places_.try_emplace(peer.rank, Place{peer.incarnation, now_ns, {}});
  Place& place = found->second;
  if (!is_new && place.incarnation == peer.incarnation) {
    place.last_heard_ns = now_ns;
  } else if (!is_new && now_ns - place.last_heard_ns > limits::kPeerTimeoutNs) {
    place = {peer.incarnation, now_ns, {}};
  }
  if (place.incarnation == peer.incarnation) return Verdict::kHolds;
  if (!place.rivals.contains(peer.incarnation) && std::cmp_greater_equal(place.rivals.size(), limits::kMaxRankRivals))
    place.rivals.clear();
  const int64_t since_ns = place.rivals.try_emplace(peer.incarnation, now_ns).first->second;
  // What the holder said just before it died may be read a moment after its successor's first word.
  return place.last_heard_ns - since_ns > limits::kHeartbeatNs / 2 ? Verdict::kRefused : Verdict::kWaits;
}

std::optional<RankPeer> RankPlaces::holder(uint32_t rank) const {
  const auto found = places_.find(rank);
  if (found == places_.end()) return std::nullopt;
  return RankPeer{rank, found->second.incarnation};
}

}  // namespace krait::shard
