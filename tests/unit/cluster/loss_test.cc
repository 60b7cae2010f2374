// What is lost ends loudly, and what comes back serves again.
#include "tests/unit/cluster/cluster_fixture.h"

namespace krait::test {
namespace {

std::shared_ptr<RecordingSink> endless(LoopbackCluster& cluster) {
  const auto sink = cluster.submit(one_sequence({1, 2, 3}, 1'000'000)).second;
  cluster.pump_until([&] { return sink->sequence().tokens.size() > 2; });
  return sink;
}

std::vector<int32_t> greedy(LoopbackCluster& cluster) {
  const auto sink = cluster.submit(one_sequence({1027, 364, 259}, 6)).second;
  cluster.pump_until_idle();
  EXPECT_TRUE(sink->finished());
  return sink->sequence().ids();
}

TEST(ClusterLoss, ALostRankEndsOpenRequestsAndARestartedOneServesAgain) {
  LoopbackCluster cluster(demo_options(3));
  const auto before = greedy(cluster);
  const auto first = endless(cluster);
  const auto second = cluster.submit(one_sequence({5, 6}, 1'000'000)).second;
  cluster.drop_rank(2);
  cluster.advance(limits::kPeerTimeoutNs + 2 * limits::kHeartbeatNs);
  for (const auto& sink : {first, second}) {
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, Errc::kUnavailable);
    EXPECT_NE(sink->error()->message.find("rank 2 is silent"), std::string::npos) << sink->error()->message;
  }
  EXPECT_FALSE(cluster.serving());
  const auto refused = cluster.submit(one_sequence({1}, 1)).second;
  EXPECT_TRUE(refused->error().has_value());
  cluster.restart_rank(2);
  cluster.advance(4 * limits::kHeartbeatNs);
  cluster.pump_until([&] { return cluster.serving(); });
  EXPECT_EQ(cluster.leader().stats().epochs, 2u);
  EXPECT_EQ(greedy(cluster), before);
}

TEST(ClusterLoss, ALostCoordinatorsRequestsAreEndedAndTheNextOneIsServed) {
  LoopbackCluster cluster(demo_options(2));
  const auto before = greedy(cluster);
  endless(cluster);
  EXPECT_EQ(cluster.leader().scheduler()->running(), 1u);
  cluster.drop_coordinator();
  cluster.advance(limits::kPeerTimeoutNs + 2 * limits::kHeartbeatNs);
  EXPECT_EQ(cluster.leader().scheduler()->running(), 0u);
  EXPECT_EQ(cluster.leader().state(), wire::GroupState::kServing);
  cluster.restart_coordinator();
  cluster.pump_until([&] { return cluster.serving(); });
  EXPECT_EQ(greedy(cluster), before);
}

TEST(ClusterLoss, ACoordinatorThatIsRestartedAtOnceTakesNothingOver) {
  LoopbackCluster cluster(demo_options(2));
  const auto before = greedy(cluster);
  endless(cluster);
  cluster.restart_coordinator();
  cluster.pump_until([&] { return cluster.serving(); });
  EXPECT_EQ(cluster.leader().scheduler()->running(), 0u);
  EXPECT_EQ(greedy(cluster), before);
}

TEST(ClusterLoss, DrainFinishesWhatIsOpen) {
  LoopbackCluster cluster(demo_options(2));
  const auto sink = cluster.submit(one_sequence({1, 2, 3}, 12)).second;
  cluster.pump();
  cluster.leader().drain();
  cluster.pump_until([&] { return cluster.leader().drained() && sink->over(); });
  EXPECT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().ids().size(), 12u);
  EXPECT_FALSE(cluster.serving());
}

}  // namespace
}  // namespace krait::test
