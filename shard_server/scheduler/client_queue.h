// Prompts that are not wholly planned yet, by client: first come first served within one, turns between them. A client
// with many requests or with huge ones holds another's back by no more than its turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "shard_server/scheduler/sequence.h"

namespace krait::scheduler {

/// What those that wait may take in one plan.
struct FreePlaces final {
  size_t slots = 0;
  int64_t pages = 0;  // of keys and values
  /// Whoever is next waits for the pages that it needs; meanwhile those behind it that need fewer may pass, until they
  /// have taken this many past it. Then all wait, so that it is not passed over for ever.
  int64_t passing_pages = 0;
};

/// Every call costs the logarithm of the number of clients, share_out() that for each row at most, and a look at
/// kLookAhead of them.
class ClientQueue final {
 public:
  /// A sequence that waits; it stands behind its client's others.
  void push(const SequencePtr& sequence);

  /// The sequence has ended. One that is not here is no error.
  void erase(const SequencePtr& sequence);

  /// Divides the rows of one plan: a turn is an equal part of them and at most one sequence that takes a free
  /// slot; what a client does not need goes to the next. Returned, in order, are the sequences that got some,
  /// in Sequence::granted_rows; all of them must be planned now.
  std::vector<SequencePtr> share_out(int64_t rows, FreePlaces free);

  /// A sequence that waits goes on behind the first `tokens` of its prompt, which another has read for it.
  void begin_behind(const SequencePtr& sequence, uint32_t tokens);

  /// Whether a sequence of this client may take a free place out of its turn: there is one for every other client that
  /// waits, and nobody waits for pages.
  bool may_jump(const std::string& client, const FreePlaces& free) const;

  /// Whether a client may have one more sequence wait, with that many tokens, where `max_waiting` of all clients may.
  bool has_room(const std::string& client, int64_t tokens, int64_t max_waiting) const;

  uint32_t waiting() const { return waiting_; }       // sequences that have had no row
  int64_t rows_left() const { return rows_left_; }    // of all prompts
  size_t clients() const { return clients_.size(); }  // that have anything here

 private:
  struct Client final {
    std::list<SequencePtr> pending;  // those that have had rows first
    uint64_t turn = 0;               // the lower, the sooner
    int64_t waiting = 0;
    int64_t waiting_tokens = 0;
  };
  using Turns = std::map<uint64_t, Client*>;

  Client* next(const FreePlaces& free);
  Client* next_to_begin(const FreePlaces& free);
  bool may_begin(const Sequence& sequence, const FreePlaces& free) const;
  void take_turn(Client& client, int64_t& rows, FreePlaces& free, std::vector<SequencePtr>& granted);
  void begin(Client& client, const SequencePtr& sequence);
  void enter(Client& client);
  void leave(const Client& client);

  std::map<std::string, Client> clients_;
  Turns ready_;   // clients whose first sequence has had rows
  Turns queued_;  // clients whose first sequence needs a slot
  uint64_t last_turn_ = 0;
  const Sequence* held_up_ = nullptr;  // whose turn it is and who waits for pages; never looked into
  int64_t passed_pages_ = 0;           // that others have taken since it waits
  uint32_t waiting_ = 0;
  int64_t waiting_tokens_ = 0;
  int64_t rows_left_ = 0;
};

}  // namespace krait::scheduler
