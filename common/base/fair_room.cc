#include "common/base/fair_room.h"

#include <utility>

#include "common/base/check.h"

namespace krait {

FairRoom::Hold::Hold(Hold&& other) noexcept
    : room_(std::exchange(other.room_, nullptr)), client_(other.client_), amount_(std::exchange(other.amount_, 0)) {}

FairRoom::Hold& FairRoom::Hold::operator=(Hold&& other) noexcept {
  // What this held goes with `other`, at the end of that.
  std::swap(room_, other.room_);
  std::swap(client_, other.client_);
  std::swap(amount_, other.amount_);
  return *this;
}

FairRoom::Hold::~Hold() {
  if (room_ == nullptr) return;
  const std::scoped_lock lock(room_->mutex_);
  room_->total_ -= amount_;
  client_->second.amount -= amount_;
  if (--client_->second.holds == 0) room_->clients_.erase(client_);
}

bool FairRoom::Hold::resize(int64_t amount) {
  CHECK(room_ != nullptr);
  const int64_t more = amount - amount_;
  const std::scoped_lock lock(room_->mutex_);
  if (more > 0 && !has_fair_room(room_->total_, client_->second.amount, more, room_->limit_)) return false;
  room_->total_ += more;
  client_->second.amount += more;
  amount_ = amount;
  return true;
}

FairRoom::Hold FairRoom::hold(const std::string& client) {
  const std::scoped_lock lock(mutex_);
  const auto at = clients_.try_emplace(client).first;
  ++at->second.holds;
  return {*this, at};
}

std::optional<FairRoom::Hold> FairRoom::take(const std::string& client, int64_t amount) {
  Hold taken = hold(client);
  if (!taken.resize(amount)) return std::nullopt;
  return taken;
}

}  // namespace krait
