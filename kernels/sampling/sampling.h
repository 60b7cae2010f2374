// From logits to a token: the primitives of one row, the same bits on every rank and instruction path.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/cpu_path.h"

namespace krait::kernels {

/// A token and the value that it is ordered by.
struct Candidate final {
  float value = 0;
  int32_t id = 0;
};

/// The order of all of sampling: the higher value first, among equals the lower id. A NaN stands below everything.
/// Ranks that hold parts of a vocabulary merge their candidates with it.
constexpr bool comes_before(const Candidate& a, const Candidate& b) {
  const bool a_is_number = a.value == a.value;
  const bool b_is_number = b.value == b.value;
  if (a_is_number != b_is_number) return a_is_number;
  if (a_is_number && a.value != b.value) return a.value > b.value;
  return a.id < b.id;
}

/// The first of logits[0..n) in the order above; logits[i] belongs to token id_offset + i. n >= 1.
Candidate argmax_row(CpuPath path, const float* logits, int64_t n, int32_t id_offset);

/// What a draw depends on besides its token. Philox4x32-10 with key {low, high half of seed} and counter {token id,
/// low, high half of position, choice} gives word 0 = r; u = 1 - (r + 1/2) / 2^32; noise = -log(-log(u)), standard
/// Gumbel. Every bit of seed, choice, position and id goes in unmixed: no two draws of the system share their numbers
/// unless all four are equal, and a draw does not depend on how the vocabulary is cut.
struct NoiseKey final {
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint64_t position = 0;  // absolute index in the sequence of the token that is drawn
};

/// Below this a temperature means greedy: the division would only overflow.
inline constexpr float kLowestTemperature = 1e-5f;
bool is_greedy(float temperature);

/// 1 / temperature in float32: the one factor by which all of sampling scales logits. Not for greedy temperatures.
float inverse_temperature(float temperature);

/// The first of logits[i] * inv_temperature + noise(id_offset + i) in the order above: over the whole vocabulary this
/// is a draw from softmax(logits / temperature) (Gumbel maximum). -inf is never drawn unless nothing else is there.
Candidate gumbel_argmax_row(CpuPath path, const float* logits, int64_t n, int32_t id_offset, float inv_temperature,
                            const NoiseKey& key);

/// The same over a list of (value, id), ids ascending, whose values are already scaled. n >= 1.
Candidate gumbel_argmax_list(CpuPath path, const float* scaled, const int32_t* ids, int64_t n, const NoiseKey& key);

/// log(sum over i of exp(logits[i])) within 1e-6 absolute, in one order that depends on n alone. n >= 1; NaNs and
/// -inf count as nothing; -inf when nothing else is there.
double log_sum_exp(CpuPath path, const float* logits, int64_t n);

/// The first out.size() (at most n) of logits[0..n) in the order above; returns how many were written.
int64_t top_n(const float* logits, int64_t n, std::span<Candidate> out);

/// Plain versions with the C library's functions. For tests.
float gumbel_noise_reference(int32_t id, const NoiseKey& key);
double log_sum_exp_reference(const float* logits, int64_t n);

}  // namespace krait::kernels
