// The plain truth of the matrix product, for tests: as gemm.h writes it, one element at a time.
#pragma once

#include "kernels/gemm/gemm.h"

namespace krait::kernels {

/// Bit for bit what gemm() gives for rows [row_begin, row_end) of the product; those rows of out alone are written.
void gemm_reference(const GemmArgs& args, int64_t row_begin, int64_t row_end);

/// One element in double precision from the same (in bf16: rounded) operands, with bias, without accumulation; and the
/// sum of the absolute products, which the error of a float32 sum is measured against.
struct ExactProduct final {
  double value = 0;
  double magnitude = 0;
};
ExactProduct gemm_exact(const GemmArgs& args, int64_t row, int64_t column);

}  // namespace krait::kernels
