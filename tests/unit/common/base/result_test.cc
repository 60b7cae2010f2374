#include "common/base/result.h"

#include <gtest/gtest.h>

namespace krait {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{Errc::kInvalidArgument, "odd", "value"};
  return value / 2;
}

Result<int> quarter(int value) {
  ASSIGN_OR_RETURN(const int h, half(value));
  ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

TEST(Result, ValueAndErrorPassThrough) {
  EXPECT_EQ(*quarter(12), 3);
  ASSERT_FALSE(quarter(6).ok());
  EXPECT_EQ(quarter(6).error().param, "value");
  EXPECT_EQ(to_string(quarter(6).error()), "invalid_argument: odd (value)");
}

TEST(Result, EveryCodeHasAStatusAndALabel) {
  for (uint8_t i = 0; is_errc(i); ++i) {
    const auto& info = errc_info(static_cast<Errc>(i));
    EXPECT_GE(info.http_status, 400);
    EXPECT_FALSE(info.label.empty());
  }
  EXPECT_EQ(errc_info(Errc::kOverloaded).http_status, 429);
}

TEST(CheckDeathTest, PrintsBothValues) {
  EXPECT_DEATH(CHECK_EQ(1 + 1, 3), "1 \\+ 1 == 3: 2 against 3");
  EXPECT_DEATH((void)half(1).value(), "odd");
}

}  // namespace
}  // namespace krait
