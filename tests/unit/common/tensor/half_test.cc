#include "common/tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace krait {
namespace {

TEST(Half, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = bf16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value))));
    } else {
      EXPECT_EQ(f32_to_bf16(value), half);
    }
  }
}

TEST(Half, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);  // a tie goes to the even neighbour
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Half, F16AgainstItsDefinition) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_TRUE(fraction != 0 ? std::isnan(value) : std::isinf(value));
    } else {
      const double want = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, int(exponent) - 25);
      EXPECT_EQ(value, static_cast<float>(sign * want));
    }
  }
}

}  // namespace
}  // namespace krait
