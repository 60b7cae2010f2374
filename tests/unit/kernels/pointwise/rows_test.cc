#include "kernels/pointwise/rows.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/tensor/half.h"
#include "tests/unit/kernels/kernel_test_util.h"

namespace krait::kernels {
namespace {

class WidenRows : public testing::TestWithParam<DType> {};

TEST_P(WidenRows, ExactAtAnyAlignment) {
  const DType dtype = GetParam();
  constexpr int64_t kRows = 7, kWidth = 43, kStride = 50;
  const int64_t element = dtype_bytes(dtype);
  SplitMix64 rng(4);
  std::vector<float> expected;
  std::vector<std::byte> rows(static_cast<size_t>(kRows * kWidth * element + 1));
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    auto bits = static_cast<uint32_t>(rng.next());
    if (dtype == DType::kF32) bits &= 0xbf7fffffu;
    if (dtype != DType::kF32) bits &= dtype == DType::kBF16 ? 0xbf7fu : 0xbbffu;  // no infinities and NaNs
    expected.push_back(dtype == DType::kF32    ? std::bit_cast<float>(bits)
                       : dtype == DType::kBF16 ? bf16_to_f32(static_cast<uint16_t>(bits))
                                               : f16_to_f32(static_cast<uint16_t>(bits)));
    std::memcpy(rows.data() + 1 + i * element, &bits, static_cast<size_t>(element));
  }
  for (const int threads : {1, 3}) {
    std::vector<float> out(kRows * kStride, -1.0f);
    widen_rows(*make_stream(best_cpu_path(), threads), rows.data() + 1, dtype, kRows, kWidth, out.data(), kStride);
    for (size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(different_bits(std::span(expected).subspan(row * kWidth, kWidth),
                               std::span(out).subspan(row * kStride, kWidth)),
                0);
      EXPECT_EQ(out[row * kStride + kWidth], -1.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WidenRows, testing::Values(DType::kF32, DType::kBF16, DType::kF16));

TEST(Rows, GatherPicksAndAddAdds) {
  SplitMix64 rng(5);
  const std::vector<float> x = random_floats(rng, 6 * 10, -1, 1);
  const std::vector<int32_t> rows = {5, 0, 5};
  std::vector<float> out(3 * 8, 0.0f), sum = x;
  const auto stream = make_stream(best_cpu_path(), 2);
  gather_rows(*stream, x.data(), 10, rows, 7, out.data(), 8);
  add_rows(*stream, sum.data(), 10, x.data(), 10, 6, 9);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(out[i], x[50 + i]);
    EXPECT_EQ(out[8 + i], x[i]);
    EXPECT_EQ(out[16 + i], x[50 + i]);
  }
  EXPECT_EQ(out[7], 0.0f);
  EXPECT_EQ(sum[58], x[58] + x[58]);
  EXPECT_EQ(sum[59], x[59]);
}

}  // namespace
}  // namespace krait::kernels
