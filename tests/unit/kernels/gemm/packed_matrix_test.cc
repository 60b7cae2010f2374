#include "kernels/gemm/packed_matrix.h"

#include <cmath>

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

TEST(PackedMatrixTest, IntegersLieInMemoryAsDocumented) {
  const int64_t n = 66, k = 2 * 80;  // leaves of a whole group and a part of one
  const std::vector<float> rows = random_values(n * k, 3);
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    const bool int8 = dtype == DType::kI8;
    const int64_t groups = int8 ? 2 : 3;  // of a leaf
    const int64_t group_bytes = 128 + (int8 ? 16 : 4) * 256;
    const PackedWeights weights(rows, dtype, n, k, 2);
    EXPECT_EQ(packed_bytes(dtype, n, k, 2), 2 * 2 * groups * group_bytes);
    std::vector<int32_t> integers(static_cast<size_t>(k));
    std::vector<float> scales(static_cast<size_t>(k));
    for (const int64_t row : {5, 17, 40, 63, 65}) {
      unpack_integers(weights.matrix(), row, integers.data(), scales.data());
      const std::byte* const panel = weights.matrix().data + row / 64 * 2 * groups * group_bytes;
      const int64_t column = row % 64;
      for (const int64_t at : {0, 3, 4, 7, 9, 63, 70, 79, 80, 85, 159}) {
        const int64_t in_leaf = at % 80;
        const int64_t group_k = int8 ? 64 : 32;
        const std::byte* const group = panel + (at / 80 * groups + in_leaf / group_k) * group_bytes;
        const int64_t i = in_leaf % group_k;
        const auto* const scale = reinterpret_cast<const uint16_t*>(group) + column / 32 * 32 + column % 16 * 2;
        EXPECT_EQ(bf16_to_f32(scale[column / 16 % 2]), scales[static_cast<size_t>(at)]) << row << " " << at;
        const auto* const cells = reinterpret_cast<const uint8_t*>(group + 128);
        const int stored = int8 ? cells[i / 4 * 256 + column * 4 + i % 4]
                                : cells[i / 8 * 256 + column * 4 + i % 4] >> (i % 8 >= 4 ? 4 : 0) & 15;
        EXPECT_EQ(stored - (int8 ? 128 : 8), integers[static_cast<size_t>(at)]) << row << " " << at;
      }
    }
  }
}

/// No weight is further from its own than half a step of its group; a scale that cuts four bits off must be worth it.
TEST(PackedMatrixTest, IntegersAreTheNearest) {
  const int64_t n = 100, k = 200;
  const std::vector<float> rows = random_values(n * k, 4, 0.05);
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    const PackedWeights weights(rows, dtype, n, k, 1);
    std::vector<float> row(static_cast<size_t>(k));
    std::vector<float> scales(static_cast<size_t>(k));
    std::vector<int32_t> integers(static_cast<size_t>(k));
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      unpack_row(weights.matrix(), i, row.data());
      unpack_integers(weights.matrix(), i, integers.data(), scales.data());
      for (size_t j = 0; j < row.size(); ++j) {
        ASSERT_EQ(row[j], scales[j] * static_cast<float>(integers[j]));
        const double lost = std::abs(double{rows[static_cast<size_t>(i * k) + j]} - row[j]);
        const bool cut = dtype == DType::kI4 && (integers[j] == -8 || integers[j] == 7);
        if (!cut) {
          ASSERT_LE(lost, 0.5001 * std::abs(scales[j])) << i << " " << j;
        }
        squares += lost * lost;
      }
    }
    // Uniform values in -0.05..0.05 in 255 and in 16 levels, each level's error uniform.
    const double step = 0.1 / (dtype == DType::kI8 ? 254 : 15);
    EXPECT_LE(std::sqrt(squares / static_cast<double>(n * k)), 1.02 * step / std::sqrt(12.0));
  }
}

TEST(PackedMatrixDeathTest, RefusesLeavesThatDoNotDivide) {
  EXPECT_DEATH((void)packed_bytes(DType::kF32, 4, 9, 2), "9|1");
  EXPECT_DEATH((void)packed_bytes(DType::kF32, 4, 9, 3), "leaves");
}

}  // namespace
}  // namespace krait::kernels
