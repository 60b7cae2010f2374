#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "kernels/scan/parallel_runs.h"
#include "kernels/scan/selective_scan.h"
#include "kernels/simd/prefetch.h"

#define KRAIT_SIMD_BODY "kernels/scan/selective_scan.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void selective_scan(Stream& stream, const SelectiveScanArgs& args) {
  const KernelTimer timer(stream, KernelKind::kScan);
  CHECK_EQ(args.channels % kChannelBlock, 0);
  CHECK_GE(args.state_size, 1);
  CHECK_LE(args.state_size, limits::kMaxStateSize);
  const CpuPath path = stream.path();
  for_runs_and_blocks(stream, args.runs, args.channels / kChannelBlock,
                      [&args, path](const Run& run, int64_t block_begin, int64_t block_end) {
                        KRAIT_SIMD_CALL(path, scan_run, args, run, block_begin, block_end);
                      });
}

void to_blocked(const float* plain, int64_t channels, int64_t state_size, float* blocked) {
  for (int64_t c = 0; c < padded_channels(channels); ++c) {
    for (int64_t n = 0; n < state_size; ++n) {
      const int64_t at = (c / kChannelBlock * state_size + n) * kChannelBlock + c % kChannelBlock;
      blocked[at] = c < channels ? plain[c * state_size + n] : 0.0f;
    }
  }
}

void from_blocked(const float* blocked, int64_t channels, int64_t state_size, float* plain) {
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t n = 0; n < state_size; ++n) {
      plain[c * state_size + n] = blocked[(c / kChannelBlock * state_size + n) * kChannelBlock + c % kChannelBlock];
    }
  }
}

}  // namespace krait::kernels
