// From a step's hidden rows to its tokens and logprobs, the same on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/wire/messages.h"
#include "kernels/sampling/sample_row.h"
#include "shard_server/blocks/lm_head.h"
#include "shard_server/engine/sequence_table.h"

namespace krait::shard {

/// One row whose logits are wanted, for a sample or for a score, never both. `position` is that of the token that the
/// logits predict.
struct LogitRow final {
  int32_t row = 0;  // of the flat batch
  uint32_t position = 0;
  SequenceRecord* sequence = nullptr;  // sampling state; null for a score
  wire::RowSample* sample = nullptr;   // where the sampled token goes; null for a score
  wire::TokenInfo* score =
      nullptr;      // prompt scoring: token is set, logprob and top are to be filled; null for a sample
  int32_t top = 0;  // alternatives that `score` wants
};

/// Sees each full row of logits before sampling changes it. For tests.
using LogitTap = std::function<void(int32_t row, std::span<const float> logits)>;

class Sampler final {
 public:
  /// `memory` holds memory_bytes(): the logits of one pass.
  Sampler(const LmHead& head, int threads, std::span<std::byte> memory);
  static int64_t memory_bytes(const LmHead& head);

  /// Fills what the rows ask for, in passes of limits::kLogitRowsPerPass, and adds hidden rows and tokens to `digest`.
  /// All ranks pass the same rows. Rows whose sequence is done are not sampled. Where no logit that may be sampled is a
  /// finite number, the sample is marked as failed and its sequence is done: on every rank, since all see the same.
  Status run(const BlockContext& context, std::span<const LogitRow> rows, Digest& digest);

  void set_tap(LogitTap tap) { tap_ = std::move(tap); }

 private:
  bool by_candidate(const LogitRow& row) const;
  Status pass(const BlockContext& context, std::span<const LogitRow* const> rows, bool whole_rows, Digest& digest);
  void find_candidates(const BlockContext& context, std::span<const LogitRow* const> rows);
  Status exchange_candidates(const BlockContext& context, std::span<const LogitRow* const> rows);
  void finish_whole_row(const BlockContext& context, const LogitRow& row, std::span<float> logits, int worker);
  void describe(kernels::CpuPath path, std::span<const float> logits, int32_t top, wire::TokenInfo& token) const;

  const LmHead& head_;
  std::vector<kernels::SampleScratch> scratch_;     // one a thread
  std::vector<std::vector<float>> raw_;             // one a thread: a row of logits as it was before sampling
  float* normed_ = nullptr;                         // [pass][H]
  float* local_ = nullptr;                          // [pass][local vocabulary]
  float* full_ = nullptr;                           // [pass][V]
  std::vector<kernels::Candidate> candidates_;      // [pass]: this rank's
  std::vector<kernels::Candidate> all_candidates_;  // [world][pass]
  LogitTap tap_;
};

}  // namespace krait::shard
