#include "common/base/check.h"
#include "common/base/limits.h"
#include "kernels/conv/causal_conv1d.h"
#include "kernels/scan/parallel_runs.h"
#include "kernels/simd/prefetch.h"

#define KRAIT_SIMD_BODY "kernels/conv/causal_conv1d.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void causal_conv1d(Stream& stream, const CausalConv1dArgs& args) {
  const KernelTimer timer(stream, KernelKind::kConv);
  CHECK_EQ(args.channels % kChannelBlock, 0);
  CHECK_GE(args.kernel, 2);
  CHECK_LE(args.kernel, limits::kMaxConvKernel);
  const CpuPath path = stream.path();
  for_runs_and_blocks(stream, args.runs, args.channels / kChannelBlock,
                      [&args, path](const Run& run, int64_t block_begin, int64_t block_end) {
                        KRAIT_SIMD_CALL(path, conv_run, args, run, block_begin, block_end);
                      });
}

}  // namespace krait::kernels
