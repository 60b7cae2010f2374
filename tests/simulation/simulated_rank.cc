#include "tests/simulation/simulated_rank.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "common/base/digest.h"
#include "common/base/limits.h"
#include "tests/simulation/token_function.h"

namespace krait::simulation {

void SimulatedRank::begin(const wire::Message& command) {
  if (const auto* form = std::get_if<wire::Form>(&command)) {
    leave_meeting();
    rounds_ = 0;
    meeting_ = meetings_.find(form->bootstrap, shape_.world);
    meeting_->attach(shape_.rank, on_change_);
  } else if (const auto* step = std::get_if<wire::Step>(&command); step != nullptr && may_run(*step)) {
    refused_.reset();
    if (const auto valid = validate(*step); !valid.ok()) {
      refused_ = valid.error();
      return;
    }
    lay_out(*step);
    Contribution contribution;
    for (const auto& run : runs_)
      contribution.push_back(run.rows.back());
    meeting_->contribute(shape_.rank, rounds_++, std::move(contribution));
  }
}

bool SimulatedRank::settled(const wire::Message& command) const {
  if (std::holds_alternative<wire::Form>(command)) return meeting_->failure() || meeting_->complete();
  const auto* step = std::get_if<wire::Step>(&command);
  if (step == nullptr || !may_run(*step) || refused_) return true;
  return meeting_->failure() || meeting_->round_complete(rounds_ - 1);
}

void SimulatedRank::expire() {
  if (meeting_ != nullptr) meeting_->fail(Error{Errc::kDeadlineExceeded, "a rank did not come in time", ""});
}

Status SimulatedRank::form(const wire::Form& form, const std::atomic<bool>& leaving) {
  if (meeting_ == nullptr) return Error{Errc::kUnavailable, "this rank has left", ""};
  if (meeting_->failure()) return *meeting_->failure();
  if (leaving) return Error{Errc::kUnavailable, "the group is being left", ""};
  if (!meeting_->complete()) return Error{Errc::kDeadlineExceeded, "a rank did not come in time", ""};
  epoch_ = form.epoch;
  return {};
}

Result<wire::Ready> SimulatedRank::load(const wire::Load& load) {
  if (std::exchange(load_fails_, false)) return Error{Errc::kCorrupt, "a file cannot be read", ""};
  const uint32_t slots = load.slots != 0 ? load.slots : shape_.slots;
  records_.assign(slots, {});
  histories_.assign(slots, {});
  kept_.assign(shape_.kv_pages * static_cast<size_t>(limits::kKvPageTokens), 0);
  loaded_ = true;
  wire::Ready ready;
  ready.kv_pages = shape_.kv_pages;
  ready.epoch = load.epoch;
  ready.rank = shape_.rank;
  ready.slots = slots;
  ready.max_rows = shape_.max_rows;
  ready.numerics_id = "simulated";
  return ready;
}

Status SimulatedRank::validate(const wire::Step& step) {
  const auto refuse = [](std::string why) { return Error{Errc::kProtocol, "step: " + std::move(why), ""}; };
  const auto exists = [&](int32_t slot) { return slot >= 0 && std::cmp_less(slot, records_.size()); };
  std::set<int32_t> admitted;
  for (const auto& admission : step.admissions) {
    if (!exists(admission.slot)) return refuse("admission to a slot that does not exist");
    admitted.insert(admission.slot);
  }
  std::set<int32_t> written;
  size_t rows = 0;
  for (const auto& run : step.runs) {
    if (!exists(run.sequence_slot)) return refuse("run of a slot that does not exist");
    if (run.out_slot != run.sequence_slot || !written.insert(run.out_slot).second)
      return refuse("two runs write one slot");
    const auto& record = records_[static_cast<size_t>(run.sequence_slot)];
    const bool is_new = admitted.contains(run.sequence_slot);
    if (!is_new && !record.admitted()) return refuse("run of a slot that holds no sequence");
    const size_t expected = is_new ? 0 : histories_[static_cast<size_t>(run.sequence_slot)].size();
    const bool in_place = run.position == expected && run.in_slot == (expected == 0 ? -1 : run.sequence_slot);
    if (!in_place && !record.done()) return refuse("a sequence's rows do not come in order");
    rows += std::max<size_t>(1, run.tokens.size());
  }
  if (rows == 0 || rows > shape_.max_rows) return refuse("too many rows, or none");
  for (const auto& tap : step.taps) {
    if (tap.row < 0 || std::cmp_greater_equal(tap.row, rows)) return refuse("tap outside the batch");
    if (!admitted.contains(tap.slot) || !written.insert(tap.slot).second) return refuse("a tap writes a slot in use");
  }
  return validate_pages(step);
}

/// Where in the pages a sequence keeps what belongs to a position; nothing where it has no page.
uint64_t* SimulatedRank::kept(std::span<const int32_t> pages, size_t position) {
  const size_t page = position / limits::kKvPageTokens;
  if (page >= pages.size()) return nullptr;
  const size_t at = static_cast<size_t>(pages[page]) * limits::kKvPageTokens + position % limits::kKvPageTokens;
  return at < kept_.size() ? &kept_[at] : nullptr;
}

/// Every row has its page, and finds in the pages what the rows before it have left.
Status SimulatedRank::validate_pages(const wire::Step& step) {
  const auto refuse = [](std::string why) { return Error{Errc::kProtocol, "step: " + std::move(why), ""}; };
  if (shape_.kv_pages == 0) return {};
  std::map<int32_t, std::span<const int32_t>> admitted;
  for (const auto& admission : step.admissions)
    admitted[admission.slot] = admission.pages;
  for (const auto& run : step.runs) {
    const auto& record = records_[static_cast<size_t>(run.sequence_slot)];
    const auto at = admitted.find(run.sequence_slot);
    const auto pages = at != admitted.end() ? at->second : record.pages();
    const auto tokens = run.position + std::max<size_t>(1, run.tokens.size());
    if (kept(pages, tokens - 1) == nullptr) return refuse("a row without a page");
    if (at != admitted.end() || record.done()) continue;
    const auto& history = histories_[static_cast<size_t>(run.sequence_slot)];
    for (size_t position = 0; position < history.size(); ++position) {
      const uint64_t* found = kept(pages, position);
      if (found == nullptr || *found != history[position]) return refuse("a page that is another sequence's by now");
    }
  }
  return {};
}

void SimulatedRank::lay_out(const wire::Step& step) {
  for (const auto& admission : step.admissions) {
    const auto slot = static_cast<size_t>(admission.slot);
    records_[slot].admit(admission);
    histories_[slot].clear();
  }
  runs_.clear();
  for (const auto& run : step.runs) {
    auto& record = records_[static_cast<size_t>(run.sequence_slot)];
    RunState& laid = runs_.emplace_back();
    uint64_t state = run.in_slot < 0 ? 0 : histories_[static_cast<size_t>(run.in_slot)].back();
    uint32_t position = run.position;
    const std::vector<int32_t> last = {record.last_token()};
    for (const int32_t token : run.tokens.empty() ? last : run.tokens)
      laid.rows.push_back(state = after_token(state, token, position++));
    record.read_tokens(run.position, run.tokens);
  }
}

Result<wire::StepDone> SimulatedRank::step(const wire::Step& step) {
  if (refused_) return *refused_;
  ASSIGN_OR_RETURN(const auto sums, meeting_->result(rounds_ - 1));
  wire::StepDone done;
  done.epoch = step.epoch;
  done.step = step.step;
  done.rank = shape_.rank;
  for (size_t r = 0; r < step.runs.size(); ++r) {
    runs_[r].rows.back() = sums[r];
    answer_run(step.runs[r], runs_[r], done);
  }
  take_taps(step);
  Digest digest;
  digest.update(std::as_bytes(std::span(&step.step, 1)));
  digest.update(std::as_bytes(std::span(sums)));
  for (const auto& sample : done.samples)
    digest.update(std::as_bytes(std::span(&sample.token.token, 1)));
  done.digest = digest.value();
  done.timings.total_us = step_us_;
  if (shape_.rank != 0) {
    done.samples.clear();
    done.prompt_logprobs.clear();
  }
  return done;
}

/// Histories that others go on from, up to the tapped rows.
void SimulatedRank::take_taps(const wire::Step& step) {
  size_t first = 0;
  for (size_t r = 0; r < step.runs.size(); ++r) {
    const size_t rows = runs_[r].rows.size();
    const auto& source = histories_[static_cast<size_t>(step.runs[r].sequence_slot)];
    for (const auto& tap : step.taps) {
      const auto row = static_cast<size_t>(tap.row);
      if (row < first || row >= first + rows) continue;
      histories_[static_cast<size_t>(tap.slot)].assign(source.begin(),
                                                       source.begin() + step.runs[r].position + (row - first) + 1);
    }
    first += rows;
  }
}

void SimulatedRank::answer_run(const wire::StepRun& run, const RunState& state, wire::StepDone& done) {
  const auto slot = static_cast<size_t>(run.sequence_slot);
  auto& record = records_[slot];
  const auto rows = static_cast<uint32_t>(state.rows.size());
  const bool was_done = record.done();
  const uint64_t after = state.rows.back();
  if (!was_done) {
    for (uint32_t row = 0; row < rows; ++row) {
      if (uint64_t* place = kept(record.pages(), run.position + row)) *place = state.rows[row];
    }
    histories_[slot].insert(histories_[slot].end(), state.rows.begin(), state.rows.end());
  }
  if (run.prompt_logprobs) {
    auto& scores = done.prompt_logprobs.emplace_back(wire::RowLogprobs{run.sequence_slot, run.position + 1, {}});
    for (size_t row = 0; row < rows; ++row) {
      const int32_t token = row + 1 < run.tokens.size() ? run.tokens[row + 1] : run.next_token;
      if (token >= 0) scores.entries.push_back({token, score(state.rows[row], token), {}});
    }
  }
  if (!run.sample) return;
  auto& sample = done.samples.emplace_back(wire::RowSample{run.sequence_slot, was_done, {}});
  if (was_done) return;
  const uint32_t position = run.position + rows;
  sample.token.token = choose_token(after, record.params(), position, record.may_stop(position));
  record.sampled(sample.token.token);
}

void SimulatedRank::drop() {
  // A rank that forms a group anew has begun to, when the executor lets go of the earlier one.
  epoch_.reset();
  loaded_ = false;
}

void SimulatedRank::abort(const std::string& reason) {
  if (meeting_ != nullptr) meeting_->fail(Error{Errc::kUnavailable, reason, ""});
}

void SimulatedRank::leave_meeting() {
  if (meeting_ != nullptr) meeting_->detach(shape_.rank);
  meeting_.reset();
}

}  // namespace krait::simulation
