// What follows most sums: the residual stream takes them in and the next block's norm reads it. Done with each stretch
// of rows as it comes, so that over a slow link the rows that are there are ready when the last ones come.
#pragma once

#include <cstdint>

#include "kernels/device/stream.h"
#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// h[t][i] += sum[t][i] + bias[i], then u[t] = the rms_norm of h[t] (kernels/norm/rms_norm.h), for i in [0, width): the
/// bits of add_rows, add_rows and rms_norm over all rows one after the other. `sum` is the all-reduce's `out`.
struct ResidualNormArgs final {
  int64_t width = 0;
  float* sum = nullptr;  // [rows][sum_stride]; with a bias, added to
  int64_t sum_stride = 0;
  const float* bias = nullptr;    // [width], or null
  float* h = nullptr;             // [rows][width]: the residual stream, updated
  const float* weight = nullptr;  // [width], or null for ones
  float eps = 1e-5f;
  float* u = nullptr;  // [rows][width]; not h
};

class ResidualNorm final : public RowSink {
 public:
  /// `stream` outlives the object; nobody else uses it inside finish and progress.
  ResidualNorm(kernels::Stream& stream, const ResidualNormArgs& args) : stream_(stream), args_(args) {}

  void take(int64_t first, int64_t rows) override;

 private:
  kernels::Stream& stream_;
  const ResidualNormArgs args_;
};

}  // namespace krait::collectives
