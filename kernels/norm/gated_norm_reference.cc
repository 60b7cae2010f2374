#include <cmath>
#include <vector>

#include "kernels/norm/gated_norm.h"

namespace krait::kernels {

void sum_squares_reference(const SumSquaresArgs& args) {
  const int64_t leaf_width = args.width / args.leaves;
  for (int64_t t = 0; t < args.rows; ++t) {
    float* x = args.x + t * args.x_stride;
    std::vector<float> leaves;
    for (int64_t i = 0; i < args.width; ++i) {
      if (i % leaf_width == 0) leaves.push_back(0.0f);
      leaves.back() += x[i] * x[i];
      if (args.weight != nullptr) x[i] *= args.weight[i];
    }
    while (leaves.size() > 1) {
      std::vector<float> above;
      for (size_t i = 0; i < leaves.size(); i += 2)
        above.push_back(leaves[i] + leaves[i + 1]);
      leaves = above;
    }
    args.sums[t * args.sum_stride] = leaves.empty() ? 0.0f : leaves[0];
  }
}

void scale_by_root_mean_reference(const ScaleByRootMeanArgs& args) {
  for (int64_t t = 0; t < args.rows; ++t) {
    const float mean = args.sums[t * args.sum_stride] / static_cast<float>(args.count);
    const float scale = 1.0f / std::sqrt(mean + args.eps);
    for (int64_t i = 0; i < args.width; ++i) {
      float& x = args.x[t * args.x_stride + i];
      x = (x * scale) * (args.weight != nullptr ? args.weight[i] : 1.0f);
    }
  }
}

}  // namespace krait::kernels
