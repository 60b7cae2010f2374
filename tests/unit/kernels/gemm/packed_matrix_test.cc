#include "kernels/gemm/packed_matrix.h"

#include "common/tensor/half.h"
#include "tests/unit/kernels/gemm/gemm_support.h"

namespace krait::kernels {
namespace {

TEST(PackedMatrixTest, RowsComeBackAsPackedAndRounded) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int leaves : {1, 2, 8}) {
      const int64_t n = 131, k = 3 * leaves;
      const std::vector<float> rows = random_values(n * k, 1);
      const PackedWeights weights(rows, dtype, n, k, leaves);
      std::vector<float> row(static_cast<size_t>(k));
      for (int64_t i = 0; i < n; ++i) {
        unpack_row(weights.matrix(), i, row.data());
        for (int64_t j = 0; j < k; ++j) {
          const float original = rows[static_cast<size_t>(i * k + j)];
          const float wanted = dtype == DType::kF32 ? original : bf16_to_f32(f32_to_bf16(original));
          ASSERT_EQ(row[static_cast<size_t>(j)], wanted) << i << " " << j;
        }
      }
    }
  }
}

/// The layout is a contract with the tiles and with whoever cuts or stores packed weights.
TEST(PackedMatrixTest, LiesInMemoryAsDocumented) {
  const std::vector<float> rows = random_values(66 * 6, 2);
  const PackedWeights f32(rows, DType::kF32, 66, 6, 2);
  const auto* const floats = reinterpret_cast<const float*>(f32.matrix().data);
  EXPECT_EQ(packed_bytes(DType::kF32, 66, 6, 2), 2 * 6 * 64 * 4);
  EXPECT_EQ(floats[4 * 64 + 5], rows[5 * 6 + 4]);            // leaf 1, its k 1, row 5
  EXPECT_EQ(floats[6 * 64 + 3 * 64 + 1], rows[65 * 6 + 3]);  // second panel, leaf 1, its k 0
  EXPECT_EQ(floats[6 * 64 + 3 * 64 + 2], 0.0f);              // a missing row

  const PackedWeights bf16(rows, DType::kBF16, 66, 6, 2);
  const auto* const halves = reinterpret_cast<const uint16_t*>(bf16.matrix().data);
  EXPECT_EQ(packed_bytes(DType::kBF16, 66, 6, 2), 2 * 2 * 4 * 64 * 2);
  EXPECT_EQ(halves[(2 * 64 + 5) * 2 + 1], f32_to_bf16(rows[5 * 6 + 4]));  // leaf 1, pair 0, odd
  EXPECT_EQ(halves[(3 * 64 + 5) * 2 + 0], f32_to_bf16(rows[5 * 6 + 5]));  // leaf 1, pair 1, even
  EXPECT_EQ(halves[(3 * 64 + 5) * 2 + 1], 0u);                            // padding of the odd leaf
}

TEST(PackedMatrixDeathTest, RefusesLeavesThatDoNotDivide) {
  EXPECT_DEATH((void)packed_bytes(DType::kF32, 4, 9, 2), "9|1");
  EXPECT_DEATH((void)packed_bytes(DType::kF32, 4, 9, 3), "leaves");
}

}  // namespace
}  // namespace krait::kernels
