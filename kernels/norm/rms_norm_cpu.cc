#include <cmath>

#include "kernels/norm/rms_norm.h"

#define KRAIT_SIMD_BODY "kernels/norm/rms_norm.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void rms_norm(Stream& stream, const RmsNormArgs& args) {
  const KernelTimer timer(stream, KernelKind::kNorm);
  const CpuPath path = stream.path();
  stream.parallel_for(args.rows, 1, [&args, path](int64_t begin, int64_t end) {
    KRAIT_SIMD_CALL(path, rms_norm_rows, args, begin, end);
  });
}

void add_rms_norm(Stream& stream, const AddRmsNormArgs& args) {
  const KernelTimer timer(stream, KernelKind::kNorm);
  const CpuPath path = stream.path();
  stream.parallel_for(args.rows, 1, [&args, path](int64_t begin, int64_t end) {
    KRAIT_SIMD_CALL(path, add_rms_norm_rows, args, begin, end);
  });
}

}  // namespace krait::kernels
