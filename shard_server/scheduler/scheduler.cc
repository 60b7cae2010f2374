#include "shard_server/scheduler/scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/may_retry.h"
#include "common/base/units.h"

namespace krait::scheduler {
namespace {

/// A collective that takes this many times what a whole step usually takes is taken for lost.
constexpr double kStepDeadlineFactor = 50;

Error invalid(std::string message, std::string param) {
  return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), pages_(options_.kv_pages) {
  CHECK_GT(options_.slots, 0u);
  CHECK_LE(options_.slots, static_cast<uint32_t>(limits::kMaxSlots));
  // Every running sequence must fit a step's decode rows, and a prompt must still move on beside them.
  CHECK_LE(int64_t{options_.slots} + StepCost::kMinPrefillRows, options_.max_step_rows);
  for (int32_t slot = static_cast<int32_t>(options_.slots) - 1; slot >= 0; --slot)
    free_slots_.push_back(slot);
}

std::optional<Error> Scheduler::refusal(const wire::Submit& submit) const {
  if (submit.model != options_.model) {
    return Error{Errc::kNotFound, fmt::format("model '{}' is not served here", submit.model), "model"};
  }
  if (!submit.numerics_id.empty() && submit.numerics_id != options_.numerics_id) {
    return Error{Errc::kUnavailable, "this group has another numerics id than the one asked for", "numerics_id"};
  }
  if (submit.tokens.empty()) return invalid("the prompt has no tokens", "prompt");
  if (static_cast<int64_t>(submit.tokens.size()) > limits::kMaxPromptTokens) {
    return invalid(
        fmt::format("the prompt has {} tokens; at most {} are taken", submit.tokens.size(), limits::kMaxPromptTokens),
        "prompt");
  }
  if (submit.generated >= submit.tokens.size() || submit.generated > submit.max_tokens) {
    return invalid("more tokens are marked as generated than can be", "generated");
  }
  const auto prompt_tokens = static_cast<int64_t>(submit.tokens.size()) - submit.generated;
  if (prompt_tokens + int64_t{submit.max_tokens} > limits::kMaxSequenceTokens) {
    return invalid(fmt::format("prompt and max_tokens together are more than {}", limits::kMaxSequenceTokens),
                   "max_tokens");
  }
  if (const int64_t pages = pages_.needed(prompt_tokens + submit.max_tokens); pages > pages_.total()) {
    return invalid(
        fmt::format("prompt and max_tokens together are {} tokens; this group has room for the keys and values of {}",
                    prompt_tokens + submit.max_tokens, int64_t{pages_.total()} * limits::kKvPageTokens),
        "max_tokens");
  }
  for (const int32_t token : submit.tokens) {
    if (token < 0 || token >= options_.vocab_size) {
      return invalid(fmt::format("token id {} is not within the vocabulary of {}", token, options_.vocab_size),
                     "prompt");
    }
  }
  // What has a free slot before it waits for the next plan only.
  const auto places = static_cast<int64_t>(options_.max_queue + free_slots_.size());
  if (!queue_.has_room(submit.client, static_cast<int64_t>(submit.tokens.size()), places)) {
    return Error{Errc::kOverloaded, "the queue is full; try again later", ""};
  }
  if (draining_) return Error{Errc::kUnavailable, "this group is shutting down", ""};
  return std::nullopt;
}

void Scheduler::submit(const std::string& peer, wire::Submit submit) {
  const SequenceKey key{peer, submit.request};
  auto error = refusal(submit);
  if (!error && by_key_.contains(key)) error = invalid("a request with this number is running", "request");
  if (error) {
    ++stats_.rejected;
    // What is wrong with the request itself is not mended by waiting.
    const double wait_s =
        may_retry(error->code) ? std::clamp<double>(backlog_seconds(), 1, limits::kMaxRetryAfterS) : 0;
    send(peer, wire::Rejected{key.request, *std::move(error), static_cast<uint32_t>(std::ceil(wait_s))});
    return;
  }
  auto sequence = std::make_shared<Sequence>();
  sequence->key = key;
  sequence->received_ns = clock_.now_ns();
  if (submit.deadline_ms > 0) sequence->deadline_ns = sequence->received_ns + submit.deadline_ms * kMs;
  sequence->generated = sequence->planned_generated = submit.generated;
  sequence->pages_needed =
      pages_.needed(static_cast<int64_t>(submit.tokens.size()) - submit.generated + submit.max_tokens);
  sequence->submit = std::move(submit);
  tokens_to_come_ += sequence->tokens_left();
  by_key_.emplace(key, sequence);
  if (sequence->deadline_ns != 0) deadlines_.emplace(sequence->deadline_ns, key);
  find_leader(sequence);
  queue_.push(sequence);
  send(peer, wire::Accepted{key.request, options_.numerics_id});
  // With nothing to generate and nothing to score there is nothing to run.
  if (!sequence->wants_tokens() && (!sequence->submit.sampling.prompt_logprobs || sequence->prefill_tokens() == 0)) {
    end(sequence, wire::FinishReason::kLength);
  }
}

void Scheduler::cancel(const std::string& peer, const wire::Cancel& cancel) {
  const auto found = by_key_.find(SequenceKey{peer, cancel.request});
  if (found == by_key_.end()) return;
  ++stats_.cancelled;
  end(SequencePtr(found->second), wire::FinishReason::kCancelled);
}

std::vector<SequencePtr> Scheduler::sequences_of(const std::string& peer) const {
  std::vector<SequencePtr> theirs;
  for (auto at = by_key_.lower_bound(SequenceKey{peer, 0}); at != by_key_.end() && at->first.peer == peer; ++at) {
    theirs.push_back(at->second);
  }
  return theirs;
}

void Scheduler::fail_peer(const std::string& peer, const Error& error) {
  for (const auto& sequence : sequences_of(peer)) {
    ++stats_.cancelled;
    end(sequence, wire::FinishReason::kError, error);
  }
}

void Scheduler::drop_peer(const std::string& peer) {
  for (const auto& sequence : sequences_of(peer)) {
    ++stats_.cancelled;
    forget(sequence);
  }
  std::erase_if(outgoing_, [&](const Outgoing& out) { return out.peer == peer; });
}

void Scheduler::expire() {
  const int64_t now_ns = clock_.now_ns();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    end(SequencePtr(by_key_.at(deadlines_.begin()->second)), wire::FinishReason::kDeadline);
  }
}

std::optional<wire::Step> Scheduler::plan() {
  if (in_flight_.size() >= static_cast<size_t>(limits::kMaxPlansInFlight)) return std::nullopt;
  // A request that comes meanwhile would wait for both.
  if (!in_flight_.empty() && in_flight_.back().lone) return std::nullopt;
  wire::Step step;
  InFlight record;
  plan_decodes(step, record);
  plan_prefills(step, record);
  if (step.runs.empty()) return std::nullopt;
  step.step = record.step = next_step_++;
  record.rank_rows = most_rows_of_a_rank(step, record);
  step.deadline_ms =
      options_.least_step_deadline_ms + static_cast<int64_t>(kStepDeadlineFactor * cost_.expected_ms(record.rank_rows));
  in_flight_.push_back(std::move(record));
  return step;
}

void Scheduler::plan_decodes(wire::Step& step, InFlight& record) {
  for (const auto& sequence : running_) {
    if (!sequence->may_decode()) continue;
    wire::StepRun run;
    run.in_slot = run.out_slot = run.sequence_slot = sequence->slot;
    // The prompt and the tokens generated so far, less the newest: that one is this row's input.
    run.position = static_cast<uint32_t>(sequence->submit.tokens.size()) + sequence->planned_generated -
                   sequence->submit.generated - 1;
    run.sample = true;
    ++sequence->planned_generated;
    step.runs.push_back(std::move(run));
    record.runs.push_back({sequence, sequence->slot, true, false});
    ++record.rows;
  }
}

void Scheduler::plan_prefills(wire::Step& step, InFlight& record) {
  const int64_t shared = shared_rows();
  record.shared = shared > 0;
  const int64_t promised_rows =
      cost_.prefill_budget(record.rows, options_.max_step_ms, options_.max_step_rows - record.rows);
  int64_t budget_rows = promised_rows;
  if (record.shared) {
    budget_rows = shared;
  } else if (record.rows == 0) {
    budget_rows = cost_.lone_prefill_budget(options_.max_step_ms, options_.max_step_rows);
  }
  std::vector<std::pair<SequencePtr, int32_t>> forks;  // who passes its fork in this plan, and the row before it
  for (const auto& sequence : queue_.share_out(budget_rows, {free_slots_.size(), pages_.free(), pages_.total()})) {
    const uint32_t begin = sequence->planned_tokens;
    const uint32_t fork = sequence->followers.empty() ? 0 : fork_point(sequence->submit);
    const int64_t fork_row = record.rows + fork - 1 - begin;
    if (sequence->slot < 0) admit(sequence, best_slot(), {}, step);
    plan_prefill_of(sequence, step, record);
    if (record.shared) step.runs.back().ranks = options_.prompt_ranks;
    if (begin < fork && fork <= sequence->planned_tokens) forks.emplace_back(sequence, fork_row);
  }
  record.lone = record.rows == record.prompt_rows && record.rows > promised_rows;
  // After those whose turn it was have their places.
  for (const auto& [source, row] : forks)
    fork_followers(*source, row, step);
}

/// Rows of the only sequence's prompt that ranks read together in the next step; 0 where it does not pay.
int64_t Scheduler::shared_rows() const {
  if (options_.prompt_ranks <= 1 || by_key_.size() != 1) return 0;
  const Sequence& only = *by_key_.begin()->second;
  const int64_t most = options_.prompt_ranks * limits::kSharedPromptRows;
  // What it costs is not known before a step has told.
  const auto of_a_rank =
      cost_.knows_rows() ? static_cast<int64_t>(limits::kSharedPromptMs / cost_.row_ms()) : limits::kLeastSharedRows;
  const int64_t rows = std::min({int64_t{only.rows_left()}, most, of_a_rank * options_.prompt_ranks});
  const bool pays = rows >= options_.prompt_ranks * limits::kLeastSharedRows;
  return pays && !only.submit.sampling.prompt_logprobs ? rows : 0;
}

int64_t Scheduler::most_rows_of_a_rank(const wire::Step& step, const InFlight& record) const {
  if (record.shared) return ceil_div(record.rows, int64_t{options_.prompt_ranks});
  if (options_.homes.world == 1) return record.rows;
  std::array<int64_t, limits::kMaxWorld> rows{};
  for (const auto& run : step.runs)
    rows[static_cast<size_t>(options_.homes.of(run.sequence_slot))] += run.rows();
  return *std::max_element(rows.begin(), rows.end());
}

/// A free slot of the rank with the fewest sequences.
int32_t Scheduler::best_slot() const {
  std::array<int64_t, limits::kMaxWorld> load{};
  for (const auto& sequence : running_)
    ++load[static_cast<size_t>(options_.homes.of(sequence->slot))];
  const auto load_of = [&](int32_t slot) { return load[static_cast<size_t>(options_.homes.of(slot))]; };
  return *std::min_element(free_slots_.rbegin(), free_slots_.rend(),
                           [&](int32_t a, int32_t b) { return load_of(a) < load_of(b); });
}

/// A free slot of the same rank as `other`, or -1.
int32_t Scheduler::slot_beside(int32_t other) const {
  const auto found = std::find_if(free_slots_.rbegin(), free_slots_.rend(),
                                  [&](int32_t slot) { return options_.homes.of(slot) == options_.homes.of(other); });
  return found == free_slots_.rend() ? -1 : *found;
}

void Scheduler::admit(const SequencePtr& sequence, int32_t slot, std::span<const int32_t> shared_pages,
                      wire::Step& step) {
  sequence->slot = slot;
  std::erase(free_slots_, slot);
  pages_.share(shared_pages);
  sequence->pages.assign(shared_pages.begin(), shared_pages.end());
  const auto own = pages_.take(sequence->pages_needed - static_cast<int64_t>(shared_pages.size()));
  sequence->pages.insert(sequence->pages.end(), own.begin(), own.end());
  sequence->first_row_ns = clock_.now_ns();
  running_.push_back(sequence);
  const auto prompt_tokens = static_cast<uint32_t>(sequence->submit.tokens.size()) - sequence->submit.generated;
  step.admissions.push_back({sequence->slot, prompt_tokens, sequence->submit.sampling, sequence->pages});
}

void Scheduler::plan_prefill_of(const SequencePtr& sequence, wire::Step& step, InFlight& record) {
  const auto& tokens = sequence->submit.tokens;
  const uint32_t begin = sequence->planned_tokens;
  const uint32_t rows = std::exchange(sequence->granted_rows, 0);
  const uint32_t end = begin + rows;
  wire::StepRun run;
  run.in_slot = begin == 0 ? -1 : sequence->slot;
  run.out_slot = run.sequence_slot = sequence->slot;
  run.position = begin;
  run.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
  run.prompt_logprobs = sequence->submit.sampling.prompt_logprobs;
  run.next_token = end < tokens.size() ? tokens[end] : -1;
  sequence->planned_tokens = end;
  run.sample = sequence->prefilled() && sequence->wants_tokens();
  if (run.sample) ++sequence->planned_generated;
  record.runs.push_back({sequence, sequence->slot, run.sample, run.prompt_logprobs});
  step.runs.push_back(std::move(run));
  record.rows += rows;
  record.prompt_rows += rows;
}

std::vector<Outgoing> Scheduler::take_outgoing() {
  return std::exchange(outgoing_, {});
}

double Scheduler::backlog_seconds() const {
  if (by_key_.empty()) return 0;
  const auto side_by_side = static_cast<int64_t>(std::min<size_t>(by_key_.size(), options_.slots));
  const double steps = used_share_ * static_cast<double>(tokens_to_come_) / static_cast<double>(side_by_side);
  const double prefill_ms = static_cast<double>(queue_.rows_left()) * cost_.row_ms();
  const double step_ms = decode_step_ms_ > 0 ? decode_step_ms_ : cost_.expected_ms(side_by_side);
  return (prefill_ms + steps * step_ms) / 1e3;
}

}  // namespace krait::scheduler
