#include "shard_server/engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/limits.h"

namespace krait::shard {
namespace {

using kernels::Candidate;

constexpr int64_t kPass = limits::kLogitRowsPerPass;

/// A rank without vocabulary offers this: everything comes before it, also the token of a row that is all NaN.
constexpr Candidate kNoCandidate{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<int32_t>::max()};

/// Ids below this may be sampled.
int64_t sampleable(const wire::SamplingParams& params, int64_t vocab_size) {
  return params.vocab_limit == 0 ? vocab_size : std::min<int64_t>(params.vocab_limit, vocab_size);
}

}  // namespace

Sampler::Sampler(const LmHead& head, int threads, std::span<std::byte> memory) : head_(head) {
  Scratch pieces(memory);
  normed_ = pieces.floats(kPass * head.hidden_size());
  local_ = pieces.floats(kPass * head.vocabulary().size());
  full_ = pieces.floats(kPass * head.vocab_size());
  candidates_.resize(kPass);
  all_candidates_.resize(kPass * limits::kMaxWorld);
  for (int i = 0; i < threads; ++i)
    scratch_.emplace_back(head.vocab_size());
  raw_.resize(static_cast<size_t>(threads));
}

int64_t Sampler::memory_bytes(const LmHead& head) {
  return Scratch::bytes_of(kPass * head.hidden_size()) + Scratch::bytes_of(kPass * head.vocabulary().size()) +
         Scratch::bytes_of(kPass * head.vocab_size());
}

bool Sampler::by_candidate(const LogitRow& row) const {
  if (row.score != nullptr || tap_) return false;
  return row.sequence->done() || row.sequence->samples_by_candidate(row.position);
}

Status Sampler::run(const BlockContext& context, std::span<const LogitRow> rows, Digest& digest) {
  // Two kinds of passes: rows that exchange one candidate, and rows that are gathered whole.
  for (const bool whole_rows : {false, true}) {
    std::array<const LogitRow*, kPass> chosen{};
    size_t count = 0;
    for (const LogitRow& row : rows) {
      if (by_candidate(row) == whole_rows) continue;
      chosen[count++] = &row;
      if (count == chosen.size()) {
        RETURN_IF_ERROR(pass(context, std::span(chosen).first(count), whole_rows, digest));
        count = 0;
      }
    }
    if (count > 0) RETURN_IF_ERROR(pass(context, std::span(chosen).first(count), whole_rows, digest));
  }
  return {};
}

Status Sampler::pass(const BlockContext& context, std::span<const LogitRow* const> rows, bool whole_rows,
                     Digest& digest) {
  std::array<int32_t, kPass> indices{};
  for (size_t i = 0; i < rows.size(); ++i)
    indices[i] = rows[i]->row;
  head_.logits(context, std::span(indices).first(rows.size()), normed_, local_);
  digest.update(std::as_bytes(std::span(normed_, rows.size() * static_cast<size_t>(head_.hidden_size()))));
  if (!whole_rows) {
    RETURN_IF_ERROR(exchange_candidates(context, rows));
  } else {
    RETURN_IF_ERROR(head_.gather(context, static_cast<int64_t>(rows.size()), local_, full_));
    const auto width = static_cast<size_t>(head_.vocab_size());
    // A worker takes every threads-th row: rows cost alike, and each worker has one scratch.
    const int threads = context.stream.threads();
    if (tap_) {
      for (size_t i = 0; i < rows.size(); ++i)
        tap_(rows[i]->row, std::span(full_ + i * width, width));
    }
    const kernels::KernelTimer timer(context.stream, kernels::KernelKind::kSampling);
    context.stream.run([&](int worker) {
      for (size_t i = static_cast<size_t>(worker); i < rows.size(); i += static_cast<size_t>(threads)) {
        finish_whole_row(context, *rows[i], std::span(full_ + i * width, width), worker);
      }
    });
  }
  for (const LogitRow* row : rows) {
    if (row->sample == nullptr || row->sample->done) continue;
    if (row->sample->failed) {
      row->sequence->failed();
      continue;
    }
    row->sequence->sampled(row->sample->token.token);
    digest.update(std::as_bytes(std::span(&row->sample->token.token, 1)));
  }
  return {};
}

void Sampler::find_candidates(const BlockContext& context, std::span<const LogitRow* const> rows) {
  const kernels::KernelTimer timer(context.stream, kernels::KernelKind::kSampling);
  const Range range = head_.vocabulary();
  context.stream.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const LogitRow& row = *rows[static_cast<size_t>(i)];
      auto& candidate = candidates_[static_cast<size_t>(i)];
      candidate = kNoCandidate;
      if (row.sequence->done()) continue;
      const auto& params = row.sequence->params();
      const int64_t count = std::min(sampleable(params, head_.vocab_size()), range.end) - range.begin;
      if (count <= 0) continue;
      const float* logits = local_ + i * range.size();
      const auto offset = static_cast<int32_t>(range.begin);
      candidate = kernels::is_greedy(params.temperature)
                      ? kernels::argmax_row(context.stream.path(), logits, count, offset)
                      : kernels::gumbel_argmax_row(context.stream.path(), logits, count, offset,
                                                   kernels::inverse_temperature(params.temperature),
                                                   row.sequence->noise_key(row.position));
    }
  });
}

Status Sampler::exchange_candidates(const BlockContext& context, std::span<const LogitRow* const> rows) {
  find_candidates(context, rows);
  const auto bytes = static_cast<int64_t>(rows.size() * sizeof(Candidate));
  RETURN_IF_ERROR(context.communicator.all_gather(bytes, candidates_.data(), all_candidates_.data()));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->sequence->done()) {
      rows[i]->sample->done = true;
      continue;
    }
    Candidate best = all_candidates_[i];
    for (int rank = 1; rank < context.communicator.world(); ++rank) {
      const Candidate& other = all_candidates_[static_cast<size_t>(rank) * rows.size() + i];
      if (kernels::comes_before(other, best)) best = other;
    }
    rows[i]->sample->failed = !std::isfinite(best.value);
    if (!rows[i]->sample->failed) rows[i]->sample->token.token = best.id;
  }
  return {};
}

void Sampler::describe(kernels::CpuPath path, std::span<const float> logits, int32_t top,
                       wire::TokenInfo& token) const {
  const auto count = static_cast<int64_t>(logits.size());
  const double lse = kernels::log_sum_exp(path, logits.data(), count);
  const auto logprob = [&](int32_t id) { return static_cast<float>(double{logits[static_cast<size_t>(id)]} - lse); };
  token.logprob = logprob(token.token);
  std::array<Candidate, limits::kMaxLogprobs> best{};
  const auto wanted = static_cast<size_t>(std::clamp(top, 0, limits::kMaxLogprobs));
  const int64_t found = kernels::top_n(logits.data(), count, std::span(best).first(wanted));
  for (int64_t i = 0; i < found; ++i) {
    const int32_t id = best[static_cast<size_t>(i)].id;
    // In order, so that behind the first that is no number there is none: a vocabulary may have rows of NaN.
    if (!std::isfinite(logprob(id))) break;
    token.top.push_back({id, logprob(id)});
  }
}

void Sampler::finish_whole_row(const BlockContext& context, const LogitRow& row, std::span<float> logits, int worker) {
  const auto path = context.stream.path();
  if (row.score != nullptr) describe(path, logits, row.top, *row.score);
  if (row.sample == nullptr) return;
  const SequenceRecord& sequence = *row.sequence;
  if (sequence.done()) {
    row.sample->done = true;
    return;
  }
  // Logprobs are those of the raw logits, and sampling changes them.
  auto& raw = raw_[static_cast<size_t>(worker)];
  const bool wants_logprobs = sequence.params().logprobs >= 0;
  if (wants_logprobs) raw.assign(logits.begin(), logits.end());
  const auto limit = static_cast<size_t>(sampleable(sequence.params(), head_.vocab_size()));
  row.sample->failed = !std::isfinite(kernels::argmax_row(path, logits.data(), static_cast<int64_t>(limit), 0).value);
  if (row.sample->failed) return;
  row.sample->token.token = kernels::sample_row(path, logits.first(limit), sequence.sample_params(row.position),
                                                sequence.seen(), scratch_[static_cast<size_t>(worker)]);
  if (wants_logprobs) describe(path, raw, sequence.params().logprobs, row.sample->token);
}

}  // namespace krait::shard
