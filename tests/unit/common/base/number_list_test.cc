#include "common/base/number_list.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace krait {
namespace {

TEST(NumberList, HoldsNumbersBetweenCommasAndNothingElse) {
  EXPECT_EQ(parse_number_list<int64_t>("1,4,16"), (std::vector<int64_t>{1, 4, 16}));
  EXPECT_EQ(parse_number_list<double>("3,0.5,1e2"), (std::vector<double>{3, 0.5, 100}));
  EXPECT_EQ(parse_number_list<int64_t>("-7"), std::vector<int64_t>{-7});
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "1 ,2", "1;2", "one", "1.5", "99999999999999999999"})
    EXPECT_EQ(parse_number_list<int64_t>(text), std::nullopt) << text;
}

TEST(Number, IsAllOfTheText) {
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<uint32_t>("4294967295"), 4294967295u);
  for (const char* text : {"", "7,", "7,8", " 7", "7 ", "-7", "7.5", "seven", "4294967296"})
    EXPECT_EQ(parse_number<uint32_t>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace krait
