// One token from one full row of logits by all of a request's sampling parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling/sampling.h"

namespace krait::kernels {

struct LogitBias final {
  int32_t id = 0;
  float bias = 0;
};

/// A token that the request has seen.
struct SeenToken final {
  int32_t id = 0;
  int32_t output_count = 0;  // how often it was generated
  bool in_prompt = false;
};

struct SampleParams final {
  float temperature = 1.0f;  // is_greedy(): the highest logit
  float min_p = 0.0f;        // 0: off
  int32_t top_k = 0;         // 0 or less: off
  double top_p = 1.0;        // 1 or more: off
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;  // > 0
  std::span<const LogitBias> logit_bias;
  std::span<const int32_t> banned;  // ids that may not be drawn now (stop ids before min_tokens)
  NoiseKey key;
};

/// Working memory of one thread, made once for the widest row.
class SampleScratch final {
 public:
  explicit SampleScratch(int64_t vocab);

 private:
  friend int32_t sample_row(CpuPath, std::span<float>, const SampleParams&, std::span<const SeenToken>, SampleScratch&);
  std::vector<float> weights_;
  std::vector<int32_t> ids_;
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> histogram_;
};

/// Draws from `logits` (the whole vocabulary; modified), in this order:
///  1. logits[id] += bias.
///  2. For each seen token: repetition (prompt and output): l > 0 ? l / r : l * r; then over generated ones
///     l -= frequency * count and l -= presence. This order is vLLM's.
///  3. Banned ids become -inf.
///  4. is_greedy(temperature): the first in the order of comes_before. Else s = l * inverse_temperature(temperature).
///  5. min_p keeps what has at least min_p times the probability of the most probable.
///  6. top_k keeps the first k.
///  7. top_p keeps the shortest beginning of what is left whose share of the probability left reaches top_p. The
///     weights exp(s - max) are counted in units of 2^-40, so their sums are exact in any order.
///  8. The Gumbel maximum over what is kept, with the noise of gumbel_argmax_row: without 5 to 7 it is that function.
/// Ids outside the row are ignored. Allocates nothing. Seen tokens and biases name each id at most once.
int32_t sample_row(CpuPath path, std::span<float> logits, const SampleParams& params,
                   std::span<const SeenToken> history, SampleScratch& scratch);

}  // namespace krait::kernels
