// The vector bodies behind sampling.h and sample_row.h, one call each.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_path.h"

namespace krait::kernels {

/// logits[i] *= factor in place; a NaN becomes -inf.
void scale_logits(CpuPath path, float* logits, int64_t n, float factor);

/// weights[i] = exp(scaled[i] - max), max the largest of scaled and finite. What is below min_p (of the largest, whose
/// weight is 1) leaves: weight 0, scaled -inf.
void weigh(CpuPath path, float* scaled, int64_t n, float max, float min_p, float* weights);

}  // namespace krait::kernels
