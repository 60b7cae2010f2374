// The demo model through coordinator, leader and ranks: what the reference says, from text to text.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/cluster/cluster_fixture.h"

namespace krait::test {
namespace {

class DemoModel : public testing::TestWithParam<int> {};

TEST_P(DemoModel, GreedyContinuationsEqualTheReference) {
  LoopbackCluster cluster(demo_options(GetParam()));
  std::ifstream file(source_path("deploy/demo_model/reference.json"));
  const auto reference = nlohmann::json::parse(file);
  struct Open final {
    nlohmann::json expected;
    std::shared_ptr<RecordingSink> sink;
  };
  std::vector<Open> open;
  for (const auto& greedy : reference.at("greedy")) {
    const auto prompt = cluster.tokenizer().encode(greedy.at("prompt").get<std::string>(), {}).value();
    EXPECT_EQ(prompt, greedy.at("prompt_ids").get<std::vector<int32_t>>());
    const auto count = static_cast<uint32_t>(greedy.at("ids").size());
    open.push_back({greedy, cluster.submit(one_sequence(prompt, count)).second});
  }
  ASSERT_GE(open.size(), 3u);
  cluster.pump_until_idle();
  for (const auto& [expected, sink] : open) {
    ASSERT_TRUE(sink->finished());
    EXPECT_EQ(sink->sequence().ids(), expected.at("ids").get<std::vector<int32_t>>());
    EXPECT_EQ(sink->sequence().text, expected.at("text").get<std::string>());
    EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kLength);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, DemoModel, testing::Values(1, 2, 3, 4, 8));

TEST(DemoModelTaps, LogitsOfAnyRowAndStateOfAnySlot) {
  const std::vector<int32_t> prompt = {1027, 364, 259, 1899, 471, 73, 1173};
  auto whole = demo_options(1);
  whole.keep_logits = true;
  auto cut = demo_options(4);
  cut.keep_logits = true;
  LoopbackCluster one(whole);
  LoopbackCluster four(cut);
  for (auto* cluster : {&one, &four}) {
    auto spec = one_sequence(prompt, 3);
    spec.shared.sampling.logprobs = 0;
    spec.shared.sampling.prompt_logprobs = true;
    const auto sink = cluster->submit(spec).second;
    cluster->pump_until_idle();
    ASSERT_TRUE(sink->finished());
    // The greedy token is the largest logit, and its logprob is that logit's.
    const auto logits = cluster->logits(0, static_cast<uint32_t>(prompt.size()) - 1);
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(sink->sequence().ids().at(0), best - logits.begin());
    double sum = 0;
    for (const float logit : logits)
      sum += std::exp(double{logit} - double{*best});
    EXPECT_NEAR(sink->sequence().tokens.at(0).logprob, -std::log(sum), 1e-5);
  }
  EXPECT_EQ(one.logits(0, 2), four.logits(0, 2)) << "a row in the middle of the prompt";
  EXPECT_TRUE(one.state(0) == four.state(0));
  EXPECT_THROW((void)one.logits(0, 999), std::runtime_error);
}

}  // namespace
}  // namespace krait::test
