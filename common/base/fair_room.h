// Bounded stores that many clients share: who may still add when one is nearly full.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace krait {

/// What a store holds beyond its limit, for clients that hold little of it.
constexpr int64_t fair_reserve(int64_t limit) {
  return std::max<int64_t>(1, limit / 8);
}

/// Whether a client that holds `own` of the `total` in a store may add `amount`. Up to `limit` anyone may. In the
/// reserve beyond it, a client may while it holds no more than what is left: whoever floods the store is refused there,
/// and whoever holds nothing finds a place. What was taken is never put out again, so nothing accepted is lost.
constexpr bool has_fair_room(int64_t total, int64_t own, int64_t amount, int64_t limit) {
  if (total + amount <= limit) return true;
  const int64_t left = limit + fair_reserve(limit) - total - amount;
  return left >= 0 && own <= left;
}

/// The books of such a store, for clients on any thread. It outlives what is held of it.
class FairRoom final {
  struct Client final {
    int64_t amount = 0;
    int64_t holds = 0;
  };
  using Clients = std::map<std::string, Client>;

 public:
  explicit FairRoom(int64_t limit) : limit_(limit) {}

  /// A client's part, given back when this goes. One thread at a time.
  class Hold final {
   public:
    Hold() = default;  // of nothing
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();

    /// The part becomes `amount`. False, and it stays as it is, where it would grow and there is no room.
    bool resize(int64_t amount);

   private:
    friend class FairRoom;
    Hold(FairRoom& room, Clients::iterator client) : room_(&room), client_(client) {}

    FairRoom* room_ = nullptr;
    Clients::iterator client_{};
    int64_t amount_ = 0;
  };

  /// An empty part, to be resized.
  Hold hold(const std::string& client);
  /// Nothing where there is no room for it.
  std::optional<Hold> take(const std::string& client, int64_t amount);

 private:
  const int64_t limit_;
  std::mutex mutex_;
  int64_t total_ = 0;
  Clients clients_;  // that have a Hold
};

}  // namespace krait
