// One sequence inside the leader: what was asked, how far it is planned, how far it is known.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/wire/messages.h"

namespace krait::scheduler {

/// Whose request it is: a coordinator (as the transport names it) and that coordinator's number for it.
struct SequenceKey final {
  std::string peer;
  uint64_t request = 0;
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

struct Sequence;
using SequencePtr = std::shared_ptr<Sequence>;

struct Sequence final {
  SequenceKey key;
  wire::Submit submit;
  int64_t received_ns = 0;
  int64_t deadline_ns = 0;     // 0: none
  int64_t first_row_ns = 0;    // when its first row was planned; 0: still waiting
  int64_t first_token_ns = 0;  // when its first token was known; 0: none yet

  int32_t slot = -1;
  int64_t pages_needed = 0;        // of keys and values, for all of its tokens
  std::vector<int32_t> pages;      // those that it holds
  uint32_t planned_tokens = 0;     // tokens of submit.tokens that are in plans made so far
  uint32_t granted_rows = 0;       // and those that the plan being made will hold
  uint32_t planned_generated = 0;  // generated tokens, earlier ones included, whose sampling is in plans made so far
  uint32_t generated = 0;          // generated tokens that are known, earlier ones included
  bool ended = false;              // finished, cancelled or expired: in no plan made from now on

  // Of sequences with one prompt the first reads it, and the others go on from the fork with a copy of its state.
  bool follows = false;                // another is about to read the prompt for it
  std::vector<SequencePtr> followers;  // for these it does
  uint32_t forked_tokens = 0;          // of its prompt that another has read

  bool pending = false;                    // in the ClientQueue,
  std::list<SequencePtr>::iterator place;  // here

  /// Tokens that prefill has to run. Scoring alone never needs the last one's logits.
  uint32_t prefill_tokens() const {
    const auto count = static_cast<uint32_t>(submit.tokens.size());
    return wants_tokens() ? count : count - 1;
  }
  bool wants_tokens() const { return submit.max_tokens > submit.generated; }
  uint32_t rows_left() const { return prefill_tokens() - planned_tokens - granted_rows; }
  /// Whether it holds a slot, or is about to.
  bool begun() const { return planned_tokens + granted_rows > 0; }
  int64_t tokens_left() const { return int64_t{submit.max_tokens} - generated; }
  bool prefilled() const { return planned_tokens == prefill_tokens(); }
  bool may_decode() const {
    return prefilled() && planned_generated > submit.generated && planned_generated < submit.max_tokens;
  }
};

}  // namespace krait::scheduler
