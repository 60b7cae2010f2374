#include "shard_server/collectives/residual_norm.h"

#include "kernels/norm/rms_norm.h"
#include "kernels/pointwise/rows.h"

namespace krait::collectives {

void ResidualNorm::take(int64_t first, int64_t rows) {
  float* const sum = args_.sum + first * args_.sum_stride;
  if (args_.bias != nullptr) kernels::add_rows(stream_, sum, args_.sum_stride, args_.bias, 0, rows, args_.width);
  kernels::add_rms_norm(stream_, {.rows = rows,
                                  .width = args_.width,
                                  .h = args_.h + first * args_.width,
                                  .h_stride = args_.width,
                                  .delta = sum,
                                  .delta_stride = args_.sum_stride,
                                  .weight = args_.weight,
                                  .eps = args_.eps,
                                  .out = args_.u + first * args_.width,
                                  .out_stride = args_.width});
}

}  // namespace krait::collectives
