#include "kernels/norm/gated_norm.h"

#include <cmath>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "kernels/norm/rms_norm.h"

#define KRAIT_SIMD_BODY "kernels/norm/gated_norm.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void sum_squares(Stream& stream, const SumSquaresArgs& args) {
  const KernelTimer timer(stream, KernelKind::kNorm);
  CHECK(args.leaves >= 1 && args.leaves <= limits::kLeaves);
  CHECK_EQ(args.width % args.leaves, 0);
  const CpuPath path = stream.path();
  stream.parallel_for(args.rows, 1, [&args, path](int64_t begin, int64_t end) {
    KRAIT_SIMD_CALL(path, sum_squares_rows, args, begin, end);
  });
}

void scale_by_root_mean(Stream& stream, const ScaleByRootMeanArgs& args) {
  const KernelTimer timer(stream, KernelKind::kNorm);
  const CpuPath path = stream.path();
  stream.parallel_for(
      args.rows, 1, [&args, path](int64_t begin, int64_t end) { KRAIT_SIMD_CALL(path, scale_rows, args, begin, end); });
}

}  // namespace krait::kernels
