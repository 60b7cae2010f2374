#include "kernels/pointwise/gelu_gate.h"

#define KRAIT_SIMD_BODY "kernels/pointwise/gelu_gate.inc"
#include "kernels/simd/foreach_path.inc"

namespace krait::kernels {

void gelu_gate(Stream& stream, const GeluGateArgs& args) {
  const KernelTimer timer(stream, KernelKind::kPointwise);
  const CpuPath path = stream.path();
  stream.parallel_for(args.rows, 1, [&args, path](int64_t begin, int64_t end) {
    KRAIT_SIMD_CALL(path, gelu_gate_rows, args, begin, end);
  });
}

}  // namespace krait::kernels
