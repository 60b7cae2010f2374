// Groups of integers at their edges: the largest, none, and what is no number.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/gemm/gemm_support.h"

namespace krait::kernels {
namespace {

/// The extremes of integers: no path may saturate where all products of a group are as large as they can be.
TEST(IntegerGroups, LargestIntegersDoNotSaturate) {
  constexpr int64_t kN = 65, kK = 192;
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    for (const float sign : {1.0f, -1.0f}) {
      // Integers of 127; of four bits, 7 but for one -8 a group, which are 15 and 0 as they are stored.
      std::vector<float> rows(kN * kK, sign * (dtype == DType::kI8 ? 127.0f / 128 : 7.0f / 8));
      for (size_t i = 0; i < rows.size() && dtype == DType::kI4; i += 32)
        rows[i] = -sign;
      const PackedWeights weights(rows, dtype, kN, kK, 1);
      std::vector<float> a(2 * kK, 3.0f);
      std::fill(a.begin() + kK, a.end(), -3.0f);
      const std::vector<float> wanted = reference(weights.matrix(), a, 2, 0, 2);
      EXPECT_NEAR(wanted[0], sign * 3 * (dtype == DType::kI8 ? kK * 127.0f / 128 : 6 * (31 * 7.0f / 8 - 1)), 1e-3f);
      const Workspace workspace(gemm_workspace_bytes(2, kK, dtype));
      for (const CpuPath path : paths_here()) {
        Stream stream({.path = path});
        const std::vector<float> found = product(stream, weights.matrix(), a, 0, 2, workspace);
        EXPECT_EQ(first_difference(found.data(), wanted.data(), 2 * kN), "") << cpu_path_name(path);
      }
    }
  }
}

/// Groups that have no scale: zeros, values that are next to nothing, and what is no number.
TEST(IntegerGroups, GroupsWithoutAScale) {
  constexpr int64_t kN = 64, kK = 128, kRows = 5;
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    std::vector<float> rows = random_values(kN * kK, 23);
    std::fill_n(rows.begin(), 64, 0.0f);
    std::fill_n(rows.begin() + kK, 64, 0x1p-101f);
    rows[2 * kK + 70] = std::numeric_limits<float>::quiet_NaN();
    rows[3 * kK + 70] = std::numeric_limits<float>::infinity();
    std::vector<float> a = random_values(kRows * kK, 24);
    std::fill_n(a.begin(), kK, 0.0f);
    std::fill_n(a.begin() + kK, kK, -0x1.8p-120f);
    a[2 * kK + 5] = std::numeric_limits<float>::quiet_NaN();
    a[3 * kK + 5] = -std::numeric_limits<float>::infinity();
    const PackedWeights weights(rows, dtype, kN, kK, 1);
    const std::vector<float> wanted = reference(weights.matrix(), a, kRows, 0, kRows);
    const Workspace workspace(gemm_workspace_bytes(kRows, kK, dtype));
    for (const CpuPath path : paths_here()) {
      Stream stream({.path = path});
      const std::vector<float> found = product(stream, weights.matrix(), a, 0, kRows, workspace);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t c = 0; c < kN; ++c) {
          const float value = found[static_cast<size_t>(row * kN + c)];
          if (row == 2 || row == 3 || c == 2 || c == 3) {
            ASSERT_TRUE(std::isnan(value)) << cpu_path_name(path) << " " << row << " " << c;
          } else {
            ASSERT_EQ(value, wanted[static_cast<size_t>(row * kN + c)])
                << cpu_path_name(path) << " " << row << " " << c;
          }
          if (row < 2 && c != 2 && c != 3) {
            ASSERT_EQ(value, 0.0f);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace krait::kernels
