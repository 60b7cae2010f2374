#include "tests/fuzz/scheduler_model.h"

#include <algorithm>
#include <set>

#include "common/base/fair_room.h"
#include "common/base/rng.h"
#include "common/base/units.h"

namespace krait::fuzz {
namespace {

int32_t token_at(uint64_t seed, uint32_t position) {
  return static_cast<int32_t>(SplitMix64(seed * 1'000'003 + position).below(SchedulerModel::kVocab));
}

bool has_stop(const wire::Submit& submit, int32_t token) {
  const auto& stops = submit.sampling.stop_ids;
  return std::binary_search(stops.begin(), stops.end(), token);
}

}  // namespace

SchedulerModel::SchedulerModel(uint32_t slots, uint32_t max_queue, double max_step_ms, int64_t max_step_rows)
    : slots_(slots), max_queue_(max_queue), max_step_rows_(max_step_rows) {
  scheduler::SchedulerOptions options;
  options.model = "m";
  options.vocab_size = kVocab;
  options.slots = slots;
  options.max_queue = max_queue;
  options.max_step_ms = max_step_ms;
  options.max_step_rows = max_step_rows;
  scheduler_.emplace(options, clock_);
}

void SchedulerModel::submit(const std::string& peer, wire::Submit submit) {
  const Key key{peer, submit.request};
  submit.sampling.seed = by_seed_.size();
  asked_[key] = submit;
  scheduler_->submit(peer, std::move(submit));
  take();
  CHECK(!asked_.contains(key));  // Accepted or Rejected, at once.
}

void SchedulerModel::cancel(const std::string& peer, uint64_t number, uint32_t keep) {
  // The planted fault: a cancel is lost when it comes while two plans are in flight.
  const bool lost = planted() && flying_.size() == 2;
  if (!lost) scheduler_->cancel(peer, {number, keep});
  take();
  CHECK(!open_.contains({peer, number}));
}

void SchedulerModel::advance_ms(int64_t ms) {
  clock_.advance(ms * kMs);
  scheduler_->expire();
  take();
  for (const auto& [key, request] : open_)
    CHECK(request->deadline_ns == 0 || request->deadline_ns > clock_.now_ns());
}

void SchedulerModel::end_all_of(const std::string& peer) {
  for (auto at = open_.begin(); at != open_.end();) {
    if (at->first.first == peer) at->second->ended = true;
    at = at->first.first == peer ? open_.erase(at) : std::next(at);
  }
}

void SchedulerModel::drop_peer(const std::string& peer) {
  scheduler_->drop_peer(peer);
  end_all_of(peer);
  take();  // A word to it now would be about a request that is not open.
}

void SchedulerModel::fail_peer(const std::string& peer) {
  scheduler_->fail_peer(peer, Error{Errc::kUnavailable, "silent", ""});
  take();
  for (const auto& [key, request] : open_)
    CHECK(key.first != peer);
}

void SchedulerModel::drain() {
  scheduler_->drain();
  draining_ = true;
}

void SchedulerModel::lose_rank() {
  scheduler_->fail_all(Error{Errc::kUnavailable, "a rank is lost", ""});
  flying_.clear();
  take();
  CHECK(open_.empty());
  check_balance();
  CHECK_EQ(scheduler_->free_slots(), slots_);
}

SchedulerModel::RequestPtr SchedulerModel::find(const std::string& peer, uint64_t number) const {
  const auto found = open_.find({peer, number});
  CHECK(found != open_.end());  // News of a request that has ended, or that nobody accepted.
  return found->second;
}

bool SchedulerModel::plan() {
  auto step = scheduler_->plan();
  take();
  if (!step) return false;
  CHECK_EQ(step->step, ++last_step_);
  CHECK_LT(flying_.size(), static_cast<size_t>(limits::kMaxPlansInFlight));
  CHECK_GT(step->deadline_ms, 0);
  for (const auto& admission : step->admissions) {
    CHECK_LE(0, admission.slot);
    CHECK_LT(static_cast<uint32_t>(admission.slot), slots_);
    CHECK_LT(admission.sampling.seed, by_seed_.size());
    const RequestPtr& request = by_seed_[admission.sampling.seed];
    CHECK_EQ(request->position, 0u);
    CHECK_EQ(admission.prompt_tokens, request->submit.tokens.size() - request->submit.generated);
    CHECK(!slot_owner_.contains(admission.slot) || slot_owner_[admission.slot]->ended);
    slot_owner_[admission.slot] = request;
  }
  Flying flying;
  std::set<int32_t> used;
  int64_t rows = 0;
  for (const auto& run : step->runs) {
    CHECK(used.insert(run.sequence_slot).second);
    CHECK(slot_owner_.contains(run.sequence_slot));
    const RequestPtr& request = slot_owner_[run.sequence_slot];
    check_run(run, *request);
    flying.owners.push_back(request);
    check_taps(*step, run, rows, *request, used);
    rows += run.rows();
  }
  CHECK_GT(rows, 0);
  CHECK_LE(rows, max_step_rows_);
  flying.step = *std::move(step);
  flying_.push_back(std::move(flying));
  return true;
}

/// Those who go on from a row of this run have the same tokens before it, have read none of them, and do not run now.
void SchedulerModel::check_taps(const wire::Step& step, const wire::StepRun& run, int64_t first_row,
                                const Request& source, std::set<int32_t>& used) {
  for (const auto& tap : step.taps) {
    const int64_t row = tap.row - first_row;
    if (row < 0 || row >= static_cast<int64_t>(run.tokens.size())) continue;
    CHECK(used.insert(tap.slot).second);
    CHECK(slot_owner_.contains(tap.slot));
    Request& request = *slot_owner_[tap.slot];
    CHECK_EQ(request.position, 0u);
    request.position = run.position + static_cast<uint32_t>(row) + 1;
    CHECK_LT(request.position, request.submit.tokens.size());
    CHECK(std::equal(request.submit.tokens.begin(), request.submit.tokens.begin() + request.position,
                     source.submit.tokens.begin()));
  }
}

void SchedulerModel::check_run(const wire::StepRun& run, Request& request) {
  const auto& submit = request.submit;
  CHECK(!request.ended);  // Cancelled, expired or finished: in no plan made after that.
  CHECK_EQ(run.in_slot, run.position == 0 ? -1 : run.sequence_slot);
  CHECK_EQ(run.out_slot, run.sequence_slot);
  CHECK_EQ(run.position, request.position);
  if (run.tokens.empty()) {
    CHECK(run.sample);
    CHECK_GT(request.planned, submit.generated);
    ++request.position;
  } else {
    CHECK_LE(run.position + run.tokens.size(), submit.tokens.size());
    CHECK(std::equal(run.tokens.begin(), run.tokens.end(), submit.tokens.begin() + run.position));
    request.position += static_cast<uint32_t>(run.tokens.size());
    const bool last = request.position == submit.tokens.size();
    CHECK_EQ(run.sample, last && submit.max_tokens > submit.generated);
    CHECK_EQ(run.next_token, last ? -1 : submit.tokens[request.position]);
    CHECK_EQ(run.prompt_logprobs, submit.sampling.prompt_logprobs);
  }
  request.planned += run.sample ? 1 : 0;
  CHECK_LE(request.planned, submit.max_tokens);
}

wire::StepDone SchedulerModel::answer(const Flying& flying, int64_t step_us) {
  wire::StepDone done;
  done.step = flying.step.step;
  done.timings.total_us = step_us;
  for (size_t i = 0; i < flying.step.runs.size(); ++i) {
    const auto& run = flying.step.runs[i];
    Request& request = *flying.owners[i];
    const auto rows = std::max<uint32_t>(1, static_cast<uint32_t>(run.tokens.size()));
    if (run.prompt_logprobs) {
      auto& scores = done.prompt_logprobs.emplace_back(wire::RowLogprobs{run.sequence_slot, run.position + 1, {}});
      for (size_t at = 1; at < run.tokens.size(); ++at)
        scores.entries.push_back({run.tokens[at], -1.0f, {}});
      if (run.next_token >= 0) scores.entries.push_back({run.next_token, -1.0f, {}});
    }
    if (!run.sample) continue;
    const int32_t token = token_at(request.submit.sampling.seed, run.position + rows);
    done.samples.push_back({run.sequence_slot, request.stopped, {request.stopped ? 0 : token, 0, {}}});
    request.stopped = request.stopped || has_stop(request.submit, token);
  }
  return done;
}

void SchedulerModel::step_done(int64_t step_us) {
  if (flying_.empty()) return;
  const auto done = answer(flying_.front(), step_us);
  flying_.pop_front();
  CHECK(scheduler_->step_done(done).ok());
  take();
}

void SchedulerModel::wrong_step_done(uint8_t how) {
  wire::StepDone done;
  done.step = last_step_ + 1;
  if (!flying_.empty()) {
    const auto& step = flying_.front().step;
    const auto samples = std::count_if(step.runs.begin(), step.runs.end(), [](const auto& run) { return run.sample; });
    done.samples.resize(static_cast<size_t>(samples));
    if (how % 3 == 0) done.step = step.step + 1;
    if (how % 3 == 1) {
      done.step = step.step;
      done.samples.emplace_back();
    }
    if (how % 3 == 2) {
      done.step = step.step;
      done.prompt_logprobs.resize(step.runs.size() + 1);
    }
  }
  CHECK(!scheduler_->step_done(done).ok());
  CHECK(scheduler_->take_outgoing().empty());
}

void SchedulerModel::take() {
  for (auto& out : scheduler_->take_outgoing()) {
    const auto& peer = out.peer;
    if (const auto* accepted = std::get_if<wire::Accepted>(&out.message)) {
      const auto asked = asked_.find({peer, accepted->request});
      CHECK(asked != asked_.end());
      CHECK(!draining_);
      auto request = std::make_shared<Request>();
      request->submit = asked->second;
      request->planned = request->received = request->submit.generated;
      if (request->submit.deadline_ms > 0) request->deadline_ns = clock_.now_ns() + request->submit.deadline_ms * kMs;
      CHECK(open_.emplace(asked->first, request).second);
      by_seed_.push_back(std::move(request));
      asked_.erase(asked);
    } else if (const auto* rejected = std::get_if<wire::Rejected>(&out.message)) {
      CHECK_EQ(asked_.erase({peer, rejected->request}), size_t{1});
      check_error_text(rejected->error.message, rejected->error.param);
    } else if (const auto* tokens = std::get_if<wire::Tokens>(&out.message)) {
      take_tokens(peer, *tokens);
    } else {
      CHECK(std::holds_alternative<wire::Finished>(out.message));
      take_finished(peer, std::get<wire::Finished>(out.message));
    }
  }
}

void SchedulerModel::take_tokens(const std::string& peer, const wire::Tokens& tokens) {
  CHECK(!tokens.chunks.empty());
  for (const auto& chunk : tokens.chunks) {
    Request& request = *find(peer, chunk.request);
    CHECK(!chunk.tokens.empty() || !chunk.prompt_logprobs.empty());
    if (!chunk.tokens.empty()) CHECK_EQ(chunk.first_index, request.received);
    if (!chunk.prompt_logprobs.empty()) CHECK_EQ(chunk.first_position, request.scored + 1);
    request.scored += static_cast<uint32_t>(chunk.prompt_logprobs.size());
    const auto prompt = static_cast<uint32_t>(request.submit.tokens.size()) - request.submit.generated;
    for (const auto& token : chunk.tokens)
      CHECK_EQ(token.token, token_at(request.submit.sampling.seed, prompt + request.received++));
    CHECK_LE(request.received, request.submit.max_tokens);
    CHECK_LT(request.scored, request.submit.tokens.size());
  }
}

void SchedulerModel::take_finished(const std::string& peer, const wire::Finished& finished) {
  Request& request = *find(peer, finished.request);
  const auto& submit = request.submit;
  CHECK_EQ(finished.generated, request.received);
  CHECK(finished.queue_us >= 0 && finished.prefill_us >= 0 && finished.decode_us >= 0);
  if (finished.reason == wire::FinishReason::kLength) CHECK_EQ(request.received, submit.max_tokens);
  if (finished.reason == wire::FinishReason::kStop) CHECK(request.stopped);
  if (finished.reason == wire::FinishReason::kDeadline) CHECK_LE(request.deadline_ns, clock_.now_ns());
  const bool whole = finished.reason == wire::FinishReason::kLength || finished.reason == wire::FinishReason::kStop;
  if (whole && submit.sampling.prompt_logprobs) CHECK_EQ(request.scored + 1, submit.tokens.size());
  request.ended = true;
  open_.erase({peer, finished.request});
}

void SchedulerModel::check_balance() const {
  CHECK_EQ(scheduler_->running() + scheduler_->waiting(), open_.size());
  CHECK_EQ(scheduler_->running() + scheduler_->free_slots(), slots_);
  // What has a free slot waits for the next plan only, and a client that holds little may use the reserve.
  const int64_t places = int64_t{max_queue_} + slots_;
  CHECK_LE(int64_t{scheduler_->waiting()}, places + fair_reserve(places));
  CHECK_EQ(scheduler_->plans_in_flight(), flying_.size());
  CHECK_EQ(scheduler_->drained(), draining_ && open_.empty() && flying_.empty());
  CHECK_GE(scheduler_->backlog_seconds(), 0.0);
}

void SchedulerModel::run_to_the_end() {
  for (int steps = 0; plan() || !flying_.empty(); ++steps) {
    CHECK_LT(steps, 100'000);
    while (plan()) {
    }
    step_done(1000);
    check_balance();
  }
  CHECK(open_.empty());
  CHECK_EQ(scheduler_->free_slots(), slots_);
  CHECK_EQ(scheduler_->backlog_seconds(), 0.0);
}

}  // namespace krait::fuzz
