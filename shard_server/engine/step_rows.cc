// The part of the engine between a step's message and its rows: what is refused, which rows this rank computes, whose
// logits are wanted.
#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "shard_server/engine/engine.h"

namespace krait::shard {

bool Engine::writes_a_slot_twice(const wire::Step& step) {
  written_.assign(records_.size(), false);
  const auto again = [&](int32_t slot) {
    if (slot < 0 || slot >= static_cast<int32_t>(written_.size())) return false;
    const bool was = written_[static_cast<size_t>(slot)];
    written_[static_cast<size_t>(slot)] = true;
    return was;
  };
  return std::any_of(step.runs.begin(), step.runs.end(), [&](const auto& run) { return again(run.out_slot); }) ||
         std::any_of(step.taps.begin(), step.taps.end(), [&](const auto& tap) { return again(tap.slot); });
}

Status Engine::validate(const wire::Step& step) {
  const auto refuse = [](std::string why) { return Error{Errc::kProtocol, "step: " + std::move(why), ""}; };
  const auto slots = static_cast<int32_t>(records_.size());
  for (const auto& admission : step.admissions) {
    if (admission.slot < 0 || admission.slot >= slots) return refuse("admission to a slot that does not exist");
    for (const int32_t page : admission.pages) {
      if (page < 0 || page >= kv_.pages()) return refuse("admission to a page that does not exist");
    }
    if (admission.sampling.logprobs > limits::kMaxLogprobs) return refuse("more logprobs than the limit");
  }
  for (const auto& run : step.runs) {
    if (run.in_slot < -1 || run.in_slot >= slots || run.out_slot < -1 || run.out_slot >= slots ||
        run.sequence_slot < 0 || run.sequence_slot >= slots) {
      return refuse("run of a slot that does not exist");
    }
    for (const int32_t token : run.tokens) {
      if (token < 0 || token >= config().vocab_size) return refuse("token outside the vocabulary");
    }
    if (run.next_token < -1 || run.next_token >= config().vocab_size) return refuse("token outside the vocabulary");
    const bool admitted_now = std::any_of(step.admissions.begin(), step.admissions.end(),
                                          [&](const auto& admission) { return admission.slot == run.sequence_slot; });
    if (!admitted_now && !records_[static_cast<size_t>(run.sequence_slot)].admitted()) {
      return refuse("run of a slot that holds no sequence");
    }
    if (!has_pages(step, run)) return refuse("run past its sequence's pages");
  }
  if (writes_a_slot_twice(step)) return refuse("two runs or taps write one slot");
  for (const auto& tap : step.taps) {
    if (tap.slot < 0 || tap.slot >= slots) return refuse("tap to a slot that does not exist");
  }
  return validate_rows(step);
}

Status Engine::validate_rows(const wire::Step& step) const {
  const auto refuse = [](std::string why) { return Error{Errc::kProtocol, "step: " + std::move(why), ""}; };
  int64_t all = 0;
  int64_t here = 0;
  for (const auto& run : step.runs) {
    all += run.rows();
    if (is_here(run)) here += run.rows();
    const auto elsewhere = [&](int32_t slot) { return slot >= 0 && homes_.of(slot) != homes_.of(run.sequence_slot); };
    if (elsewhere(run.in_slot) || elsewhere(run.out_slot)) return refuse("run of a slot that lives at another rank");
    if (run.ranks <= 1) continue;
    if (step.runs.size() > 1 || !step.taps.empty() || run.prompt_logprobs || kv_.pages() > 0 || run.out_slot < 0 ||
        (run.in_slot >= 0 && run.in_slot != run.out_slot) || run.out_slot != run.sequence_slot) {
      return refuse("ranks share a run that they cannot share");
    }
    if (run.ranks > static_cast<uint32_t>(homes_.world) || run.rows() < run.ranks ||
        run.rows() > run.ranks * limits::kSharedPromptRows) {
      return refuse(fmt::format("{} rows for {} of {} ranks", run.rows(), run.ranks, homes_.world));
    }
    return {};
  }
  if (all == 0 || here > max_rows_) return refuse(fmt::format("{} rows, at most {} fit", here, max_rows_));
  for (const auto& tap : step.taps) {
    if (tap.row < 0 || tap.row >= all) return refuse("tap outside the batch");
    int64_t end = 0;
    const auto run = std::find_if(step.runs.begin(), step.runs.end(), [&](const auto& at) {
      end += at.rows();
      return tap.row < end;
    });
    if (homes_.of(tap.slot) != homes_.of(run->sequence_slot)) return refuse("tap to a slot that lives at another rank");
  }
  return {};
}

void Engine::lay_out(const wire::Step& step) {
  ids_.clear();
  runs_.clear();
  run_steps_.clear();
  taps_.clear();
  attention_.clear();
  for (const auto& admission : step.admissions)
    records_[static_cast<size_t>(admission.slot)].admit(admission);
  int64_t step_row = 0;  // among the rows of all ranks
  for (const auto& run : step.runs) {
    SequenceRecord& record = records_[static_cast<size_t>(run.sequence_slot)];
    const int64_t first_row = std::exchange(step_row, step_row + run.rows());
    const PromptPart part = prompt_part(homes_, run);
    if (part.rows == 0 && !is_here(run)) continue;
    kernels::Run rows;
    rows.row_begin = static_cast<int32_t>(ids_.size());
    rows.in_slot = run.in_slot;
    // A row after its stop is computed like any other, but leaves no trace.
    rows.out_slot = record.done() ? -1 : run.out_slot;
    if (run.tokens.empty()) {
      ids_.push_back(record.last_token());
    } else {
      const auto first = run.tokens.begin() + part.first;
      ids_.insert(ids_.end(), first, first + part.rows);
      record.read_tokens(run.position, run.tokens);
    }
    rows.rows = static_cast<int32_t>(ids_.size()) - rows.row_begin;
    runs_.push_back(rows);
    run_steps_.push_back(&run);
    if (kv_.pages() > 0) attention_.push_back({rows.row_begin, rows.rows, run.position, record.pages()});
    for (const auto& tap : step.taps) {
      const int64_t row = tap.row - first_row;
      const bool inside = row >= 0 && row < rows.rows;
      if (inside && !record.done()) taps_.push_back({rows.row_begin + static_cast<int32_t>(row), tap.slot});
    }
  }
  std::sort(taps_.begin(), taps_.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
}

bool Engine::has_pages(const wire::Step& step, const wire::StepRun& run) const {
  if (kv_.pages() == 0) return true;
  const auto admitted = std::find_if(step.admissions.begin(), step.admissions.end(),
                                     [&](const auto& admission) { return admission.slot == run.sequence_slot; });
  const size_t pages = admitted != step.admissions.end()
                           ? admitted->pages.size()
                           : records_[static_cast<size_t>(run.sequence_slot)].pages().size();
  return static_cast<int64_t>(pages) * kernels::kPageTokens >= run.position + run.rows();
}

void Engine::choose_logit_rows(const wire::Step& step, wire::StepDone& done) {
  logit_rows_.clear();
  // First the places for the results, because rows point at them.
  for (const auto& run : step.runs) {
    if (!is_here(run)) continue;
    if (run.sample) done.samples.push_back({run.sequence_slot, false, {}});
    if (!run.prompt_logprobs) continue;
    auto& scores = done.prompt_logprobs.emplace_back(wire::RowLogprobs{run.sequence_slot, run.position + 1, {}});
    for (size_t i = 1; i < run.tokens.size(); ++i)
      scores.entries.push_back({run.tokens[i], 0, {}});
    if (run.next_token >= 0) scores.entries.push_back({run.next_token, 0, {}});
  }
  auto sample = done.samples.begin();
  auto scores = done.prompt_logprobs.begin();
  for (size_t r = 0; r < runs_.size(); ++r) {
    const auto& run = *run_steps_[r];
    if (!is_here(run)) continue;
    SequenceRecord* record = &records_[static_cast<size_t>(run.sequence_slot)];
    if (run.prompt_logprobs) {
      int32_t row = runs_[r].row_begin;
      for (auto& entry : scores->entries) {
        LogitRow& wanted = logit_rows_.emplace_back();
        wanted.row = row++;
        wanted.score = &entry;
        wanted.top = record->params().logprobs;
      }
      ++scores;
    }
    if (run.sample) {
      LogitRow& wanted = logit_rows_.emplace_back();
      wanted.row = runs_[r].row_begin + runs_[r].rows - 1;
      wanted.position = run.position + static_cast<uint32_t>(run.rows());
      wanted.sequence = record;
      wanted.sample = &*sample++;
    }
  }
}

}  // namespace krait::shard
