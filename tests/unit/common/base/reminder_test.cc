#include "common/base/reminder.h"

#include <gtest/gtest.h>

namespace krait {
namespace {

TEST(Reminder, SpeaksAfterAWhileThenNowAndAgainAndStartsAnewAfterABreak) {
  Reminder reminder;
  int words = 0;
  const auto wait = [&](int64_t from_ns, int64_t for_ns) {
    words = 0;
    for (int64_t at = 0; at < for_ns; at += 100 * kMs)
      words += reminder.due(true, from_ns + at) ? 1 : 0;
    return words;
  };
  EXPECT_EQ(wait(kSecond, limits::kFirstWaitWordNs), 0);
  EXPECT_TRUE(reminder.due(true, kSecond + limits::kFirstWaitWordNs));
  EXPECT_EQ(reminder.seconds(kSecond + limits::kFirstWaitWordNs), limits::kFirstWaitWordNs / kSecond);
  EXPECT_EQ(wait(kSecond + limits::kFirstWaitWordNs + 1, 3 * limits::kNextWaitWordNs), 2);
  EXPECT_FALSE(reminder.due(false, 200 * kSecond));
  EXPECT_EQ(wait(200 * kSecond, limits::kFirstWaitWordNs), 0) << "the wait begins anew";
}

TEST(Throttle, SpeaksAtOnceThenNowAndAgainAndCountsWhatItDidNotSay) {
  Throttle throttle;
  EXPECT_TRUE(throttle.due(kSecond));
  EXPECT_EQ(throttle.times(), 1);
  for (int64_t i = 1; i < 100; ++i)
    EXPECT_FALSE(throttle.due(kSecond + i * limits::kNextWaitWordNs / 100)) << i;
  EXPECT_TRUE(throttle.due(kSecond + limits::kNextWaitWordNs));
  EXPECT_EQ(throttle.times(), 100);
  EXPECT_TRUE(throttle.due(1000 * kSecond));
  EXPECT_EQ(throttle.times(), 1);
}

}  // namespace
}  // namespace krait
