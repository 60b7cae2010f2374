// Inside of packed_matrix: one group of weights as integers and a scale.
#pragma once

#include <cstdint>

#include "kernels/gemm/integer_groups.h"

namespace krait::kernels {

/// Integers of `count` weights of one group; returns the bits of the scale in bf16 (gemm.h has the rule). `to` has room
/// for whole vectors of sixteen.
uint16_t quantize_int8_weights(const float* from, int64_t count, int32_t* to);
uint16_t quantize_int4_weights(const float* from, int64_t count, int32_t* to);

}  // namespace krait::kernels
