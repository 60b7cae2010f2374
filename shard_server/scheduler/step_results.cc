// The second part of the scheduler: what happens when a step's result is known, and how sequences end.
#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/units.h"
#include "shard_server/scheduler/scheduler.h"

namespace krait::scheduler {
namespace {

constexpr double kSpeedSmoothing = 0.1;
constexpr double kUseSmoothing = 0.05;
constexpr std::string_view kNoNumbers =
    "the model produced NaN or infinite logits here: its weights hold such values, or its numbers overflow";

/// Gathers what one step brings each coordinator into one message each.
class Post final {
 public:
  explicit Post(uint64_t step) : step_(step) {}

  wire::TokenChunk& chunk(const Sequence& sequence) {
    auto& tokens = by_peer_[sequence.key.peer];
    tokens.step = step_;
    // A plan holds a sequence once, so its chunk can only be the newest.
    if (!tokens.chunks.empty() && tokens.chunks.back().request == sequence.key.request) return tokens.chunks.back();
    tokens.chunks.push_back({.request = sequence.key.request, .first_index = sequence.generated});
    return tokens.chunks.back();
  }
  std::map<std::string, wire::Tokens>& messages() { return by_peer_; }

 private:
  uint64_t step_;
  std::map<std::string, wire::Tokens> by_peer_;
};

bool is_stop(const Sequence& sequence, int32_t token) {
  const auto& stops = sequence.submit.sampling.stop_ids;
  return std::binary_search(stops.begin(), stops.end(), token);
}

}  // namespace

wire::StepDone Scheduler::merge(std::vector<wire::StepDone> answers) const {
  wire::StepDone all = std::move(answers.at(0));
  if (options_.homes.world == 1 || in_flight_.empty()) return all;
  std::map<int32_t, size_t> places;
  for (const auto& run : in_flight_.front().runs)
    places.emplace(run.slot, places.size());
  const auto place = [&](const auto& result) {
    const auto found = places.find(result.slot);
    return found == places.end() ? places.size() : found->second;
  };
  const auto by_place = [&](const auto& a, const auto& b) { return place(a) < place(b); };
  for (size_t i = 1; i < answers.size(); ++i) {
    std::move(answers[i].samples.begin(), answers[i].samples.end(), std::back_inserter(all.samples));
    auto& scores = answers[i].prompt_logprobs;
    std::move(scores.begin(), scores.end(), std::back_inserter(all.prompt_logprobs));
    all.timings.total_us = std::max(all.timings.total_us, answers[i].timings.total_us);
  }
  std::stable_sort(all.samples.begin(), all.samples.end(), by_place);
  std::stable_sort(all.prompt_logprobs.begin(), all.prompt_logprobs.end(), by_place);
  return all;
}

Status Scheduler::check(const InFlight& record, const wire::StepDone& done) const {
  const auto samples =
      std::count_if(record.runs.begin(), record.runs.end(), [](const auto& run) { return run.samples; });
  const auto scores = std::count_if(record.runs.begin(), record.runs.end(), [](const auto& run) { return run.scores; });
  if (record.step == done.step && std::cmp_equal(samples, done.samples.size()) &&
      std::cmp_equal(scores, done.prompt_logprobs.size())) {
    return check_slots(record, done);
  }
  return Error{Errc::kProtocol,
               fmt::format("step {} with {} samples and {} scored runs came where step {} with {} and {} was due",
                           done.step, done.samples.size(), done.prompt_logprobs.size(), record.step, samples, scores),
               ""};
}

Status Scheduler::check_slots(const InFlight& record, const wire::StepDone& done) const {
  auto sample = done.samples.begin();
  auto scores = done.prompt_logprobs.begin();
  for (const auto& run : record.runs) {
    for (const int32_t slot : {run.samples ? sample++->slot : run.slot, run.scores ? scores++->slot : run.slot}) {
      if (slot == run.slot) continue;
      return Error{
          Errc::kProtocol,
          fmt::format("step {} has results of slot {} where those of slot {} were due", done.step, slot, run.slot), ""};
    }
  }
  return {};
}

Status Scheduler::step_done(const wire::StepDone& done) {
  if (in_flight_.empty()) return Error{Errc::kProtocol, fmt::format("step {} was not planned", done.step), ""};
  RETURN_IF_ERROR(check(in_flight_.front(), done));
  const InFlight record = std::move(in_flight_.front());
  in_flight_.pop_front();
  observe(record, done);

  Post post(done.step);
  std::vector<std::pair<SequencePtr, wire::FinishReason>> ended;
  std::vector<SequencePtr> failed;
  auto sample = done.samples.begin();
  auto scores = done.prompt_logprobs.begin();
  for (const auto& run : record.runs) {
    // Results come in the order of the runs, also those of sequences that have ended since: skip, but count them.
    const auto* run_sample = run.samples ? &*sample++ : nullptr;
    const auto* run_scores = run.scores ? &*scores++ : nullptr;
    const auto& sequence = run.sequence;
    if (sequence->ended) continue;
    if ((run_sample != nullptr && run_sample->failed) || (run_scores != nullptr && run_scores->failed)) {
      failed.push_back(sequence);
      continue;
    }
    if (run_scores != nullptr && !run_scores->entries.empty()) {
      auto& chunk = post.chunk(*sequence);
      chunk.first_position = run_scores->first_position;
      chunk.prompt_logprobs = run_scores->entries;
    }
    if (run_sample != nullptr && !run_sample->done) {
      post.chunk(*sequence).tokens.push_back(run_sample->token);
      take_token(*sequence);
      if (is_stop(*sequence, run_sample->token.token)) {
        ended.emplace_back(sequence, wire::FinishReason::kStop);
        continue;
      }
    }
    const bool all_known = sequence->generated == sequence->submit.max_tokens;
    if (all_known && sequence->prefilled() && !in_later_plan(sequence)) {
      ended.emplace_back(sequence, wire::FinishReason::kLength);
    }
  }
  for (auto& [peer, tokens] : post.messages())
    send(peer, std::move(tokens));
  for (const auto& [sequence, reason] : ended) {
    if (sequence->wants_tokens()) {
      const double used = static_cast<double>(sequence->generated) / sequence->submit.max_tokens;
      used_share_ += kUseSmoothing * (used - used_share_);
    }
    end(sequence, reason);
  }
  stats_.non_finite += failed.size();
  for (const auto& sequence : failed)
    end(sequence, wire::FinishReason::kError, Error{Errc::kInternal, std::string(kNoNumbers), ""});
  return {};
}

void Scheduler::take_token(Sequence& sequence) {
  ++sequence.generated;
  --tokens_to_come_;
  ++stats_.generated_tokens;
  if (sequence.first_token_ns == 0) sequence.first_token_ns = clock_.now_ns();
}

bool Scheduler::in_later_plan(const SequencePtr& sequence) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [&](const InFlight& record) {
    return std::any_of(record.runs.begin(), record.runs.end(),
                       [&](const PlannedRun& run) { return run.sequence == sequence; });
  });
}

void Scheduler::observe(const InFlight& record, const wire::StepDone& done) {
  ++stats_.steps;
  stats_.prompt_tokens += static_cast<uint64_t>(record.prompt_rows);
  const double step_ms = static_cast<double>(done.timings.total_us) / 1e3;
  if (record.shared) stats_.shared_prompt_tokens += static_cast<uint64_t>(record.rows);
  cost_.observe(record.rank_rows, step_ms, record.lone);
  if (step_ms > 0) {
    const double speed = static_cast<double>(record.rows) / step_ms * 1e3;
    tokens_per_second_ += (tokens_per_second_ == 0 ? 1 : kSpeedSmoothing) * (speed - tokens_per_second_);
    const bool decoded = record.rows > record.prompt_rows;
    if (decoded) decode_step_ms_ += (decode_step_ms_ == 0 ? 1 : kSpeedSmoothing) * (step_ms - decode_step_ms_);
  }
}

void Scheduler::end(const SequencePtr& sequence, wire::FinishReason reason, const Error& error) {
  const int64_t now_ns = clock_.now_ns();
  wire::Finished finished;
  finished.request = sequence->key.request;
  finished.reason = reason;
  finished.generated = sequence->generated;
  finished.cached_tokens = sequence->forked_tokens;
  finished.error = error;
  const int64_t first_row_ns = sequence->first_row_ns != 0 ? sequence->first_row_ns : now_ns;
  const int64_t first_token_ns = sequence->first_token_ns != 0 ? sequence->first_token_ns : now_ns;
  finished.queue_us = (first_row_ns - sequence->received_ns) / kUs;
  finished.prefill_us = (first_token_ns - first_row_ns) / kUs;
  finished.decode_us = (now_ns - first_token_ns) / kUs;
  forget(sequence);
  send(sequence->key.peer, finished);
}

void Scheduler::forget(const SequencePtr& sequence) {
  sequence->ended = true;
  release_followers(sequence);
  tokens_to_come_ -= sequence->tokens_left();
  by_key_.erase(sequence->key);
  deadlines_.erase({sequence->deadline_ns, sequence->key});
  queue_.erase(sequence);
  if (sequence->slot >= 0) {
    // Ranks run plans in order, so the next owner's admission comes after every row that still names this slot.
    free_slots_.push_back(sequence->slot);
    pages_.give_back(std::exchange(sequence->pages, {}));
    std::erase(running_, sequence);
  }
}

void Scheduler::fail_all(const Error& error) {
  in_flight_.clear();
  while (!by_key_.empty())
    end(SequencePtr(by_key_.begin()->second), wire::FinishReason::kError, error);
}

void Scheduler::send(const std::string& peer, wire::Message message) {
  outgoing_.push_back({peer, std::move(message)});
}

}  // namespace krait::scheduler
