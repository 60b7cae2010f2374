#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "kernels/scan/head_scan.h"
#include "kernels/scan/parallel_runs.h"

#define KRAIT_SIMD_BODY "kernels/scan/head_scan.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void head_steps(Stream& stream, const HeadStepsArgs& args) {
  const KernelTimer timer(stream, KernelKind::kScan);
  const CpuPath path = stream.path();
  stream.parallel_for(args.rows, 1, [&args, path](int64_t begin, int64_t end) {
    KRAIT_SIMD_CALL(path, head_steps_rows, args, begin, end);
  });
}

void head_scan(Stream& stream, const HeadScanArgs& args) {
  const KernelTimer timer(stream, KernelKind::kScan);
  CHECK_EQ(args.channels % kChannelBlock, 0);
  CHECK_GE(args.state_size, 1);
  CHECK_LE(args.state_size, limits::kMaxStateSize);
  const CpuPath path = stream.path();
  for_runs_and_blocks(stream, args.runs, args.channels / kChannelBlock,
                      [&args, path](const Run& run, int64_t block_begin, int64_t block_end) {
                        KRAIT_SIMD_CALL(path, head_scan_run, args, run, block_begin, block_end);
                      });
}

}  // namespace krait::kernels
