#include "deploy/tools/perplexity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/units.h"
#include "kernels/sampling/sampling.h"

namespace krait::tools {
namespace {

constexpr int64_t kChunkRows = 256;           // bounds the logits that are compared
constexpr int64_t kStepDeadlineMs = 600'000;  // far beyond any step

/// Adds one token's part to a comparison: `mine` and `wanted` are logits of the whole vocabulary.
void compare(std::span<const float> mine, std::span<const float> wanted, Comparison& into) {
  const auto count = static_cast<int64_t>(mine.size());
  const auto path = kernels::best_cpu_path();
  const double my_sum = kernels::log_sum_exp(path, mine.data(), count);
  const double sum = kernels::log_sum_exp(path, wanted.data(), count);
  double divergence = 0;
  for (size_t i = 0; i < mine.size(); ++i) {
    const double logprob = double{wanted[i]} - sum;
    const double probability = std::exp(logprob);
    // What is never foretold adds nothing, whatever the other makes of it.
    if (probability > 0) divergence += probability * (logprob - (double{mine[i]} - my_sum));
  }
  into.divergence += divergence;
  into.agreed +=
      kernels::argmax_row(path, mine.data(), count, 0).id == kernels::argmax_row(path, wanted.data(), count, 0).id ? 1
                                                                                                                   : 0;
}

}  // namespace

double Score::perplexity() const {
  return std::exp(nll / static_cast<double>(tokens));
}

Result<std::vector<std::vector<int32_t>>> sequences_of(std::span<const int32_t> text, const ModelConfig& config,
                                                       int64_t context) {
  const auto ends = [&](int32_t token) {
    return std::binary_search(config.eos_ids.begin(), config.eos_ids.end(), token);
  };
  std::optional<int32_t> start = config.bos_id;
  if (!start && !config.eos_ids.empty()) start = config.eos_ids.front();
  std::vector<std::vector<int32_t>> sequences;
  const auto add = [&](std::span<const int32_t> tokens) {
    std::vector<int32_t> sequence;
    if (start) sequence.push_back(*start);
    sequence.insert(sequence.end(), tokens.begin(), tokens.end());
    if (sequence.size() > 1) sequences.push_back(std::move(sequence));
  };
  for (size_t begin = 0; begin < text.size();) {
    // A text may spell the token that begins it.
    if (ends(text[begin]) || text[begin] == start) {
      ++begin;
      continue;
    }
    const auto end = static_cast<size_t>(
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), ends) - text.begin());
    const size_t most = context == 0 ? text.size() : static_cast<size_t>(context);
    while (begin < end) {
      const size_t take = std::min(most, end - begin);
      add(text.subspan(begin, take));
      begin += take;
    }
  }
  if (sequences.empty()) return Error{Errc::kInvalidArgument, "the text has no token to be foretold", "text"};
  return sequences;
}

void Foreteller::keep_logits() {
  const auto width = static_cast<size_t>(group_.checkpoint().config().vocab_size);
  logits_.resize(static_cast<size_t>(std::min(kChunkRows, most_rows())) * width);
  group_.engine(0).set_logit_tap([this](int32_t row, std::span<const float> logits) {
    std::copy(logits.begin(), logits.end(), logits_.begin() + row * std::ssize(logits));
  });
}

std::span<const float> Foreteller::logits(int64_t row) const {
  const auto width = static_cast<size_t>(group_.checkpoint().config().vocab_size);
  return std::span(logits_).subspan(static_cast<size_t>(row) * width, width);
}

Status Foreteller::admit(std::span<const int32_t> sequence, wire::Step& step) const {
  wire::Admission admission;
  admission.prompt_tokens = static_cast<uint32_t>(sequence.size());
  admission.sampling.prompt_logprobs = true;
  admission.sampling.logprobs = 0;
  if (const int64_t pages = group_.ready().kv_pages; pages > 0) {
    const int64_t needed = ceil_div(std::ssize(sequence), limits::kKvPageTokens);
    if (needed > pages) {
      return Error{Errc::kResourceExhausted,
                   fmt::format("a sequence of {} tokens has no room for its keys and values: --context {} or less does",
                               sequence.size(), pages * limits::kKvPageTokens - 1),
                   "context"};
    }
    for (int32_t page = 0; page < needed; ++page)
      admission.pages.push_back(page);
  }
  step.admissions.push_back(std::move(admission));
  return {};
}

Status Foreteller::chunk(std::span<const int32_t> sequence, int64_t begin, int64_t end) {
  wire::Step step;
  step.step = next_step_++;
  step.deadline_ms = kStepDeadlineMs;
  if (begin == 0) RETURN_IF_ERROR(admit(sequence, step));
  wire::StepRun run;
  run.in_slot = begin == 0 ? -1 : 0;
  run.position = static_cast<uint32_t>(begin);
  run.tokens.assign(sequence.begin() + begin, sequence.begin() + end);
  run.prompt_logprobs = true;
  run.next_token = sequence[static_cast<size_t>(end)];
  step.runs.push_back(std::move(run));
  const int64_t start_ns = clock_.now_ns();
  ASSIGN_OR_RETURN(const wire::StepDone done, group_.step(std::move(step)));
  score_.seconds += static_cast<double>(clock_.now_ns() - start_ns) / kSecond;
  const wire::RowLogprobs& rows = done.prompt_logprobs.at(0);
  if (rows.failed) return Error{Errc::kInternal, "the model gives logits that are no numbers", ""};
  CHECK_EQ(std::ssize(rows.entries), end - begin);
  for (const wire::TokenInfo& token : rows.entries)
    score_.nll -= double{token.logprob};
  score_.tokens += end - begin;
  return {};
}

Result<Measured> foretell(std::span<const std::vector<int32_t>> sequences, Foreteller& model, Foreteller* other) {
  Measured measured;
  int64_t most = std::min(kChunkRows, model.most_rows());
  if (other != nullptr) {
    measured.comparison.emplace();
    most = std::min(most, other->most_rows());
    model.keep_logits();
    other->keep_logits();
  }
  for (const auto& sequence : sequences) {
    const int64_t last = std::ssize(sequence) - 1;
    for (int64_t begin = 0; begin < last; begin += most) {
      const int64_t end = std::min(begin + most, last);
      RETURN_IF_ERROR(model.chunk(sequence, begin, end));
      if (other == nullptr) continue;
      RETURN_IF_ERROR(other->chunk(sequence, begin, end));
      for (int64_t row = 0; row < end - begin; ++row)
        compare(model.logits(row), other->logits(row), *measured.comparison);
    }
  }
  measured.score = model.score();
  if (other != nullptr) measured.comparison->against = other->score();
  return measured;
}

}  // namespace krait::tools
