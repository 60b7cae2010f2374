#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "common/base/check.h"
#include "kernels/sampling/row_bodies.h"
#include "kernels/sampling/sample_row.h"

namespace krait::kernels {
namespace {

constexpr float kGone = -HUGE_VALF;  // the value of a token that was taken out
constexpr int kBuckets = 4096;       // of 1/64 below the maximum; the last one takes all that is lower
constexpr float kBucketsPerUnit = 64.0f;
constexpr float kWeightUnit = 0x1.0p40f;  // weights are at most 1 and a row has at most 2^22 of them: the sum fits

uint64_t fixed_weight(float weight) {
  return static_cast<uint64_t>(weight * kWeightUnit);
}

/// A larger key comes earlier in the order (value descending, id ascending). Adding zero makes -0 equal to 0.
uint64_t order_key(float value, int32_t id) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  const uint32_t ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
int32_t id_of_key(uint64_t key) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
}

void adjust(std::span<float> logits, const SampleParams& params, std::span<const SeenToken> history) {
  const auto inside = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); };
  for (const LogitBias& bias : params.logit_bias) {
    if (inside(bias.id)) logits[static_cast<size_t>(bias.id)] += bias.bias;
  }
  for (const SeenToken& seen : history) {
    if (!inside(seen.id)) continue;
    float& logit = logits[static_cast<size_t>(seen.id)];
    if (seen.in_prompt || seen.output_count > 0) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    if (seen.output_count > 0) {
      logit -= params.frequency_penalty * static_cast<float>(seen.output_count);
      logit -= params.presence_penalty;
    }
  }
  for (const int32_t id : params.banned) {
    if (inside(id)) logits[static_cast<size_t>(id)] = kGone;
  }
}

/// Takes tokens out of a row of scaled logits whose maximum is finite. The order is cut by a histogram of the distance
/// from the maximum, which follows the order, and exactly only within the bucket where the cut falls.
class Filter final {
 public:
  Filter(std::span<float> scaled, float max, std::span<uint64_t> histogram, std::span<uint64_t> keys)
      : scaled_(scaled), max_(max), histogram_(histogram), keys_(keys) {}

  void keep_top_k(int64_t k) {
    std::fill(histogram_.begin(), histogram_.end(), 0);
    uint64_t total = 0;
    for (const float value : scaled_) {
      if (value == kGone) continue;
      ++histogram_[bucket_of(value)];
      ++total;
    }
    auto left = static_cast<uint64_t>(k);
    if (total <= left) return;
    size_t bucket = 0;
    for (; histogram_[bucket] < left; ++bucket)
      left -= histogram_[bucket];
    const std::span<uint64_t> keys = collect(bucket);
    const auto last = keys.begin() + static_cast<ptrdiff_t>(left) - 1;
    std::nth_element(keys.begin(), last, keys.end(), std::greater<>());
    cut(id_of_key(*last));
  }

  void keep_top_p(double top_p, std::span<const float> weights) {
    std::fill(histogram_.begin(), histogram_.end(), 0);
    uint64_t total = 0;
    for (size_t i = 0; i < scaled_.size(); ++i) {
      if (scaled_[i] == kGone) continue;
      const uint64_t weight = fixed_weight(weights[i]);
      histogram_[bucket_of(scaled_[i])] += weight;
      total += weight;
    }
    const double wanted = std::max(top_p, 0.0) * static_cast<double>(total);
    const auto reached = [wanted](uint64_t sum) { return static_cast<double>(sum) >= wanted; };
    uint64_t sum = 0;
    size_t bucket = 0;
    for (; !reached(sum + histogram_[bucket]); ++bucket)
      sum += histogram_[bucket];
    const std::span<uint64_t> keys = collect(bucket);
    std::sort(keys.begin(), keys.end(), std::greater<>());
    for (const uint64_t key : keys) {
      sum += fixed_weight(weights[static_cast<size_t>(id_of_key(key))]);
      if (reached(sum)) return cut(id_of_key(key));
    }
  }

 private:
  size_t bucket_of(float value) const {
    const float below = max_ - value;
    return below < (kBuckets - 1) / kBucketsPerUnit ? static_cast<size_t>(below * kBucketsPerUnit) : kBuckets - 1;
  }

  std::span<uint64_t> collect(size_t bucket) {
    size_t count = 0;
    for (size_t i = 0; i < scaled_.size(); ++i) {
      if (scaled_[i] != kGone && bucket_of(scaled_[i]) == bucket) {
        keys_[count++] = order_key(scaled_[i], static_cast<int32_t>(i));
      }
    }
    return keys_.first(count);
  }

  /// Takes out all that comes after `last`.
  void cut(int32_t last) {
    const float lowest = scaled_[static_cast<size_t>(last)];
    for (size_t i = 0; i < scaled_.size(); ++i) {
      const bool stays = scaled_[i] > lowest || (scaled_[i] == lowest && static_cast<int32_t>(i) <= last);
      scaled_[i] = stays ? scaled_[i] : kGone;
    }
  }

  std::span<float> scaled_;
  float max_;
  std::span<uint64_t> histogram_;
  std::span<uint64_t> keys_;
};

}  // namespace

SampleScratch::SampleScratch(int64_t vocab)
    : weights_(static_cast<size_t>(vocab)),
      ids_(static_cast<size_t>(vocab)),
      keys_(static_cast<size_t>(vocab)),
      histogram_(kBuckets) {}

int32_t sample_row(CpuPath path, std::span<float> logits, const SampleParams& params,
                   std::span<const SeenToken> history, SampleScratch& scratch) {
  CHECK_GE(logits.size(), size_t{1});
  CHECK_LE(logits.size(), scratch.weights_.size());
  const auto n = static_cast<int64_t>(logits.size());
  adjust(logits, params, history);
  if (is_greedy(params.temperature)) return argmax_row(path, logits.data(), n, 0).id;
  const float factor = inverse_temperature(params.temperature);
  const bool by_min_p = params.min_p > 0.0f, by_top_k = params.top_k > 0 && params.top_k < n;
  const bool by_top_p = params.top_p < 1.0;
  if (!by_min_p && !by_top_k && !by_top_p) {
    return gumbel_argmax_row(path, logits.data(), n, 0, factor, params.key).id;
  }

  scale_logits(path, logits.data(), n, factor);
  const Candidate first = argmax_row(path, logits.data(), n, 0);
  if (!std::isfinite(first.value)) return first.id;  // an overflown or an empty row has no distribution to filter
  weigh(path, logits.data(), n, first.value, std::min(params.min_p, 1.0f), scratch.weights_.data());
  Filter filter(logits, first.value, scratch.histogram_, scratch.keys_);
  if (by_top_k) filter.keep_top_k(params.top_k);
  if (by_top_p) filter.keep_top_p(params.top_p, std::span(scratch.weights_).first(logits.size()));

  int64_t kept = 0;  // never ahead of i, so the row can be packed into its own beginning
  for (int64_t i = 0; i < n; ++i) {
    const float value = logits[static_cast<size_t>(i)];
    if (value == kGone) continue;
    logits[static_cast<size_t>(kept)] = value;
    scratch.ids_[static_cast<size_t>(kept++)] = static_cast<int32_t>(i);
  }
  return gumbel_argmax_list(path, logits.data(), scratch.ids_.data(), kept, params.key).id;
}

}  // namespace krait::kernels
