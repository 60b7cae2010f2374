#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/paged_attention.h"

namespace krait::kernels {
namespace {

void attend(const PagedAttentionArgs& args, const AttentionRun& run, int64_t row, int64_t head) {
  const int64_t head_dim = args.pages.head_dim;
  const int64_t tokens = run.position + row + 1;
  const float* q = args.q + (run.row_begin + row) * args.q_stride + head * head_dim;
  const auto page_of = [&](int64_t token) {
    return args.pages.base + run.pages[static_cast<size_t>(token / kPageTokens)] * args.pages.page_stride +
           args.kv_of[head] * args.pages.head_floats();
  };
  std::vector<double> weights;
  for (int64_t t = 0; t < tokens; ++t) {
    double score = 0;
    for (int64_t d = 0; d < head_dim; ++d)
      score += double{q[d]} * double{page_of(t)[d * kPageTokens + t % kPageTokens]};
    weights.push_back(score * double{args.scale});
  }
  const double maximum = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights)
    sum += weight = std::exp(weight - maximum);
  for (int64_t d = 0; d < head_dim; ++d) {
    double value = 0;
    for (int64_t t = 0; t < tokens; ++t)
      value += weights[static_cast<size_t>(t)] * double{page_of(t)[(kPageTokens + t % kPageTokens) * head_dim + d]};
    args.out[(run.row_begin + row) * args.out_stride + head * head_dim + d] = static_cast<float>(value / sum);
  }
}

}  // namespace

void paged_attention_reference(const PagedAttentionArgs& args) {
  for (const AttentionRun& run : args.runs) {
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t head = 0; head < args.heads; ++head)
        attend(args, run, row, head);
    }
  }
}

}  // namespace krait::kernels
