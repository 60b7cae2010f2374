// The third part of the scheduler: sequences with one prompt, as the `n` choices of a request are, read it once.
//
// The first of them leads. In the step in which it reads the last token before the fork its state is also written to
// the followers' slots; each goes on by itself from there, one step later. Full pages of keys and values before the
// fork are shared, as nobody writes them again. Results do not depend on who read a prompt, nor on how it was cut.
#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "shard_server/scheduler/scheduler.h"

namespace krait::scheduler {
namespace {

constexpr uint32_t kLeastForkTokens = 16;  // fewer are not worth a wait of one step

/// Whether nothing of the prompt is wanted but the state behind it: neither its logprobs, nor which tokens occurred.
bool may_follow(const wire::Submit& submit) {
  const wire::SamplingParams& sampling = submit.sampling;
  const bool counts_tokens =
      sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 || sampling.repetition_penalty != 1;
  return submit.max_tokens > 0 && submit.generated == 0 && !sampling.prompt_logprobs && !counts_tokens;
}

}  // namespace

/// Tokens before the fork: all but the last, whose logits each samples for itself, in whole pages where there are some.
uint32_t Scheduler::fork_point(const wire::Submit& submit) const {
  const auto tokens = static_cast<uint32_t>(submit.tokens.size()) - 1;
  const auto page = pages_.total() == 0 ? 1 : static_cast<uint32_t>(limits::kKvPageTokens);
  return tokens / page * page;
}

/// Finds the sequence that will read the prompt of this one, which has just come; without any it may lead others.
void Scheduler::find_leader(const SequencePtr& sequence) {
  const wire::Submit& submit = sequence->submit;
  const uint32_t fork = fork_point(submit);
  Sequence* const leader = latest_leader_.get();
  sequence->follows = leader != nullptr && fork >= kLeastForkTokens && leader->planned_tokens < fork &&
                      may_follow(submit) && leader->submit.generated == 0 && leader->submit.client == submit.client &&
                      leader->submit.tokens == submit.tokens;
  if (sequence->follows) {
    leader->followers.push_back(sequence);
  } else {
    latest_leader_ = sequence;
  }
}

/// Row `fork_row` of the plan reads the last token before the fork. Whom there is no place for reads for itself.
void Scheduler::fork_followers(Sequence& source, int32_t fork_row, wire::Step& step) {
  const uint32_t fork = fork_point(source.submit);
  const auto shared = std::span(source.pages).first(pages_.total() == 0 ? 0 : fork / limits::kKvPageTokens);
  for (const SequencePtr& follower : std::exchange(source.followers, {})) {
    follower->follows = false;
    const FreePlaces free{free_slots_.size(), pages_.free(), pages_.total()};
    const int32_t slot = slot_beside(source.slot);
    if (slot < 0 || follower->ended || !queue_.may_jump(follower->submit.client, free) ||
        follower->pages_needed - static_cast<int64_t>(shared.size()) > free.pages) {
      continue;
    }
    admit(follower, slot, shared, step);
    queue_.begin_behind(follower, fork);
    follower->forked_tokens = fork;
    step.taps.push_back({fork_row, follower->slot});
  }
}

/// It has ended: they read for themselves.
void Scheduler::release_followers(const SequencePtr& source) {
  if (latest_leader_ == source) latest_leader_.reset();
  for (const SequencePtr& follower : std::exchange(source->followers, {}))
    follower->follows = false;
}

}  // namespace krait::scheduler
