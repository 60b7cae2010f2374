#include "common/tensor/stored_values.h"

#include <gtest/gtest.h>

#include <vector>

namespace krait {
namespace {

std::vector<float> widened(DType dtype, const std::vector<int>& bytes, size_t elements) {
  std::vector<std::byte> data(bytes.size() + 1);  // one byte on: files do not align
  for (size_t i = 0; i < bytes.size(); ++i)
    data[i + 1] = static_cast<std::byte>(bytes[i]);
  std::vector<float> out(elements, -7.0f);
  widen(dtype, data.data() + 1, out);
  return out;
}

/// Half a number: 0.5, 0.25 ... as the two bytes that a file has.
constexpr int kHalfLow = 0x00, kHalfHigh = 0x38;  // 0.5

TEST(StoredValues, BytesOfBlocks) {
  EXPECT_EQ(stored_bytes(DType::kQ80, 64), 68);
  EXPECT_EQ(stored_bytes(DType::kQ40, 64), 36);
  EXPECT_EQ(stored_bytes(DType::kQ6K, 512), 420);
  EXPECT_EQ(stored_bytes(DType::kBF16, 3), 6);
  EXPECT_TRUE(is_weight_dtype(DType::kQ6K));
  EXPECT_FALSE(is_weight_dtype(DType::kI8));
  EXPECT_EQ(dtype_from_safetensors("Q8_0"), std::nullopt) << "no such file has blocks";
}

TEST(StoredValues, Q8_0IsAScaleAndSignedBytes) {
  std::vector<int> block{kHalfLow, kHalfHigh};
  for (int i = 0; i < 32; ++i)
    block.push_back((i * 9 + 120) & 255);  // past 127: negative
  std::vector<int> two = block;
  two.insert(two.end(), block.begin(), block.end());
  two[34 + 1] = 0xb8;  // -0.5
  const auto out = widened(DType::kQ80, two, 64);
  EXPECT_EQ(out[0], 60.0f);
  EXPECT_EQ(out[1], -63.5f);
  EXPECT_EQ(out[31], -56.5f);  // 31 * 9 + 120 = 399 = 143 beyond a byte, which is -113
  EXPECT_EQ(out[32], -60.0f);
}

TEST(StoredValues, Q4_0HasItsSecondHalfInTheHighBits) {
  std::vector<int> block{kHalfLow, kHalfHigh};
  for (int i = 0; i < 16; ++i)
    block.push_back(i | (15 - i) << 4);
  const auto out = widened(DType::kQ40, block, 32);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.5f * (static_cast<float>(i) - 8));
    EXPECT_EQ(out[16 + i], 0.5f * (7 - static_cast<float>(i)));
  }
}

TEST(StoredValues, Q6KTakesItsHighBitsFromTheirOwnBytes) {
  std::vector<int> block(210, 0);
  block[0] = 0xa3;         // elements 0 and 64: low bits 3 and 10
  block[128] = 0xe4;       // elements 0, 32, 64, 96: high bits 0, 1, 2, 3
  block[64 + 33] = 0x50;   // of the second half: elements 33 (0) and 97 (5)
  block[192] = 2;          // scale of 0-15
  block[194] = 3;          // 32-47
  block[196] = 255;        // 64-79: -1
  block[198] = 1;          // 96-111
  block[192 + 8 + 6] = 4;  // 224-239 are 96-111 of the second half
  block[208] = kHalfLow;
  block[209] = kHalfHigh;
  const auto out = widened(DType::kQ6K, block, 256);
  EXPECT_EQ(out[0], 0.5f * 2 * (3 - 32));
  EXPECT_EQ(out[32], 0.5f * 3 * (16 - 32));
  EXPECT_EQ(out[64], 0.5f * -1 * (10 + 32 - 32));
  EXPECT_EQ(out[96], 0.5f * 1 * (48 - 32));
  EXPECT_EQ(out[128 + 97], 0.5f * 4 * (5 - 32));
  EXPECT_EQ(out[128 + 96], 0.5f * 4 * (0 - 32));
  EXPECT_EQ(out[16], 0.0f) << "a scale of zero";
}

}  // namespace
}  // namespace krait
