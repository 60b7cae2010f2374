#include "coordinator/routing/choose_group.h"

#include <gtest/gtest.h>

#include <vector>

namespace krait::routing {
namespace {

TEST(ChooseGroup, TakesTheLeastWorkAheadOfThoseThatServeTheModel) {
  std::vector<Candidate> groups = {{"a", true, 2.0, 0}, {"a", true, 1.0, 9}, {"b", true, 0.0, 0}, {"a", false, 0.0, 0}};
  EXPECT_EQ(*choose_group(groups, "a"), 1u);
  EXPECT_EQ(*choose_group(groups, "b"), 2u);
  groups[0].backlog_seconds = 1.0;
  EXPECT_EQ(*choose_group(groups, "a"), 0u) << "equal backlogs: fewer sequences of our own";
  groups[0].open_sequences = 9;
  EXPECT_EQ(*choose_group(groups, "a"), 0u) << "equal in all: the first";
}

TEST(ChooseGroup, SaysWhenNobodyServes) {
  EXPECT_EQ(choose_group({}, "a").error().code, Errc::kUnavailable);
  const std::vector<Candidate> groups = {{"a", false, 0, 0}};
  EXPECT_EQ(choose_group(groups, "a").error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace krait::routing
