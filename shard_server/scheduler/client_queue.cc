#include "shard_server/scheduler/client_queue.h"

#include <algorithm>

#include "common/base/fair_room.h"
#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::scheduler {
namespace {

constexpr int kLookAhead = 16;  // clients that may pass one that waits for pages

}  // namespace

void ClientQueue::push(const SequencePtr& sequence) {
  const auto [at, is_new] = clients_.try_emplace(sequence->submit.client);
  Client& client = at->second;
  if (is_new) {
    client.turn = ++last_turn_;
  } else {
    leave(client);
  }
  sequence->place = client.pending.insert(client.pending.end(), sequence);
  sequence->pending = true;
  const auto tokens = static_cast<int64_t>(sequence->submit.tokens.size());
  ++client.waiting;
  client.waiting_tokens += tokens;
  ++waiting_;
  waiting_tokens_ += tokens;
  rows_left_ += sequence->rows_left();
  enter(client);
}

/// It waits no longer.
void ClientQueue::begin(Client& client, const SequencePtr& sequence) {
  const auto tokens = static_cast<int64_t>(sequence->submit.tokens.size());
  --client.waiting;
  client.waiting_tokens -= tokens;
  --waiting_;
  waiting_tokens_ -= tokens;
}

void ClientQueue::erase(const SequencePtr& sequence) {
  if (!sequence->pending) return;
  const auto at = clients_.find(sequence->submit.client);
  Client& client = at->second;
  leave(client);
  if (!sequence->begun()) begin(client, sequence);
  if (held_up_ == sequence.get()) held_up_ = nullptr;
  rows_left_ -= sequence->rows_left();
  client.pending.erase(sequence->place);
  sequence->pending = false;
  if (client.pending.empty()) {
    clients_.erase(at);
  } else {
    enter(client);
  }
}

void ClientQueue::begin_behind(const SequencePtr& sequence, uint32_t tokens) {
  Client& client = clients_.at(sequence->submit.client);
  leave(client);
  begin(client, sequence);
  rows_left_ -= tokens;
  sequence->planned_tokens = tokens;
  const auto first_waiting = std::find_if(client.pending.begin(), client.pending.end(),
                                          [](const SequencePtr& other) { return !other->begun(); });
  client.pending.splice(first_waiting, client.pending, sequence->place);
  enter(client);
}

bool ClientQueue::may_jump(const std::string& client, const FreePlaces& free) const {
  const auto own = clients_.find(client);
  const size_t others = queued_.size() - (own != clients_.end() ? queued_.count(own->second.turn) : 0);
  return held_up_ == nullptr && free.slots > others;
}

bool ClientQueue::has_room(const std::string& client, int64_t tokens, int64_t max_waiting) const {
  const auto at = clients_.find(client);
  const int64_t own = at == clients_.end() ? 0 : at->second.waiting;
  const int64_t own_tokens = at == clients_.end() ? 0 : at->second.waiting_tokens;
  return has_fair_room(waiting_, own, 1, max_waiting) &&
         has_fair_room(waiting_tokens_, own_tokens, tokens, limits::kMaxQueuedTokens);
}

void ClientQueue::enter(Client& client) {
  (client.pending.front()->begun() ? ready_ : queued_).emplace(client.turn, &client);
}

void ClientQueue::leave(const Client& client) {
  if (ready_.erase(client.turn) == 0) queued_.erase(client.turn);
}

bool ClientQueue::may_begin(const Sequence& sequence, const FreePlaces& free) const {
  if (sequence.follows || free.slots == 0 || sequence.pages_needed > free.pages) return false;
  const bool passes = held_up_ != nullptr && held_up_ != &sequence;
  return !passes || passed_pages_ + sequence.pages_needed <= free.passing_pages;
}

ClientQueue::Client* ClientQueue::next_to_begin(const FreePlaces& free) {
  if (queued_.empty() || free.slots == 0) return nullptr;
  Client* const first = queued_.begin()->second;
  const Sequence* const waits = first->pending.front().get();
  if (held_up_ != waits) {
    held_up_ = !waits->follows && waits->pages_needed > free.pages ? waits : nullptr;
    passed_pages_ = 0;
  }
  if (may_begin(*waits, free)) return first;
  int looked_at = 0;
  for (auto at = std::next(queued_.begin()); at != queued_.end() && looked_at < kLookAhead; ++at, ++looked_at) {
    const Sequence& behind = *at->second->pending.front();
    if (may_begin(behind, free)) return at->second;
  }
  return nullptr;
}

ClientQueue::Client* ClientQueue::next(const FreePlaces& free) {
  Client* const beginner = next_to_begin(free);
  if (ready_.empty()) return beginner;
  Client* const ready = ready_.begin()->second;
  return beginner != nullptr && beginner->turn < ready->turn ? beginner : ready;
}

void ClientQueue::take_turn(Client& client, int64_t& rows, FreePlaces& free, std::vector<SequencePtr>& granted) {
  bool took_slot = false;
  while (rows > 0 && !client.pending.empty()) {
    const SequencePtr sequence = client.pending.front();
    if (!sequence->begun()) {
      if (took_slot || !may_begin(*sequence, free)) return;
      took_slot = true;
      --free.slots;
      free.pages -= sequence->pages_needed;
      passed_pages_ += sequence->pages_needed;
      if (held_up_ == sequence.get()) held_up_ = nullptr;
      begin(client, sequence);
    }
    if (sequence->granted_rows == 0) granted.push_back(sequence);
    const auto part = static_cast<uint32_t>(std::min<int64_t>(rows, sequence->rows_left()));
    sequence->granted_rows += part;
    rows -= part;
    rows_left_ -= part;
    if (sequence->rows_left() > 0) return;
    client.pending.pop_front();
    sequence->pending = false;
  }
}

std::vector<SequencePtr> ClientQueue::share_out(int64_t rows, FreePlaces free) {
  std::vector<SequencePtr> granted;
  const auto sharers = static_cast<int64_t>(ready_.size() + std::min(queued_.size(), free.slots));
  if (sharers == 0) return granted;
  const int64_t part = ceil_div(rows, sharers);
  while (rows > 0) {
    Client* const client = next(free);
    if (client == nullptr) break;
    leave(*client);
    client->turn = ++last_turn_;
    const std::string name = client->pending.front()->submit.client;
    const int64_t turn_rows = std::min(rows, part);
    int64_t left = turn_rows;
    take_turn(*client, left, free, granted);
    rows -= turn_rows - left;
    if (client->pending.empty()) {
      clients_.erase(name);
    } else {
      enter(*client);
    }
  }
  return granted;
}

}  // namespace krait::scheduler
