// Requests through the whole cluster: seeds, choices, stops, cancels, limits.
#include "tests/unit/cluster/cluster_fixture.h"

namespace krait::test {
namespace {

requests::GenerationSpec sampled(uint64_t seed, uint32_t choices = 1, uint32_t max_tokens = 20) {
  auto spec = one_sequence({1027, 364, 259, 1899}, max_tokens);
  spec.shared.sampling.temperature = 1;
  spec.prompts[0].seed = seed;
  spec.n = choices;
  return spec;
}

TEST(ClusterRequests, ASeedGivesTheSameTextTwiceInARowAndUnderLoad) {
  LoopbackCluster cluster(demo_options(2));
  const auto first = cluster.submit(sampled(42)).second;
  cluster.pump_until_idle();
  std::vector<std::shared_ptr<RecordingSink>> others;
  for (uint64_t i = 0; i < 7; ++i)
    others.push_back(cluster.submit(sampled(1000 + i)).second);
  const auto second = cluster.submit(sampled(42)).second;
  cluster.pump_until_idle();
  EXPECT_FALSE(first->sequence().text.empty());
  EXPECT_EQ(first->sequence().text, second->sequence().text);
  for (const auto& other : others)
    EXPECT_NE(other->sequence().text, first->sequence().text);
}

TEST(ClusterRequests, ChoicesDifferAndEachIsReproducible) {
  LoopbackCluster cluster(demo_options(2));
  const auto first = cluster.submit(sampled(42, 4)).second;
  cluster.pump_until_idle();
  const auto second = cluster.submit(sampled(42, 4)).second;
  cluster.pump_until_idle();
  std::set<std::string> texts;
  for (size_t choice = 0; choice < 4; ++choice) {
    texts.insert(first->sequence(choice).text);
    EXPECT_EQ(first->sequence(choice).text, second->sequence(choice).text);
  }
  EXPECT_EQ(texts.size(), 4u);
}

TEST(ClusterRequests, AChangedLaterTokenChangesNoEarlierLogprob) {
  LoopbackCluster cluster(demo_options(2));
  SplitMix64 random(3);
  auto prompt = random_prompt(random, 40);
  const auto score = [&] {
    auto spec = one_sequence(prompt, 0);
    spec.shared.sampling.prompt_logprobs = true;
    const auto sink = cluster.submit(spec).second;
    cluster.pump_until_idle();
    std::vector<float> logprobs;
    for (const auto& token : sink->sequence().prompt_logprobs)
      logprobs.push_back(token.logprob);
    return logprobs;
  };
  const auto before = score();
  ASSERT_EQ(before.size(), 39u);
  prompt[30] = prompt[30] == 7 ? 8 : 7;
  const auto after = score();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 29, after.begin()));
  EXPECT_NE(before[29], after[29]) << "the changed token's own";
  EXPECT_NE(before[30], after[30]);
}

TEST(ClusterRequests, AStopStringAcrossTokensFreesTheSlot) {
  LoopbackCluster cluster(demo_options(2));
  const auto prompt = cluster.tokenizer().encode("It is a truth universally acknowledged, that", {}).value();
  auto spec = one_sequence(prompt, 500);
  spec.shared.stop = std::make_shared<const tokenizer::StopStrings>(std::vector<std::string>{"much in lo"});
  const auto sink = cluster.submit(spec).second;
  cluster.pump_until_idle();
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " I have been so ");
  EXPECT_EQ(sink->sequence().end->stop_string, "much in lo");
  EXPECT_EQ(cluster.leader().scheduler()->free_slots(), 4u);
  EXPECT_EQ(cluster.leader().scheduler()->stats().cancelled, 1u);
}

TEST(ClusterRequests, AStopTokenEndsTheSequenceOnTheRanks) {
  LoopbackCluster cluster(demo_options(2));
  const auto prompt = cluster.tokenizer().encode("It is a truth universally acknowledged, that", {}).value();
  auto spec = one_sequence(prompt, 40);
  spec.shared.sampling.stop_ids = {12};  // the comma, tenth in the reference
  const auto sink = cluster.submit(spec).second;
  cluster.pump_until_idle();
  EXPECT_EQ(sink->sequence().ids().size(), 10u);
  EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kStop);
  EXPECT_EQ(sink->sequence().text, " I have been so much in love with him");
  spec.shared.sampling.min_tokens = 15;
  const auto later = cluster.submit(spec).second;
  cluster.pump_until_idle();
  EXPECT_GT(later->sequence().ids().size(), 15u);
  for (size_t i = 0; i < 15; ++i)
    EXPECT_NE(later->sequence().ids()[i], 12) << "not before min_tokens";
}

TEST(ClusterRequests, CancellationFreesTheSlotWhereverTheRequestIs) {
  auto options = demo_options(2);
  options.slots = 1;
  options.max_step_ms = 2;  // prompts take many steps
  LoopbackCluster cluster(options);
  SplitMix64 random(1);
  const auto scheduler = [&] { return cluster.leader().scheduler(); };
  // Prefilling.
  const auto prefilling = cluster.submit(one_sequence(random_prompt(random, 400), 100));
  const auto queued = cluster.submit(one_sequence({1, 2, 3}, 100));
  for (int i = 0; i < 3; ++i)
    cluster.pump();
  EXPECT_TRUE(prefilling.second->sequence().tokens.empty());
  EXPECT_EQ(scheduler()->free_slots(), 0u);
  EXPECT_EQ(scheduler()->waiting(), 1u);
  // Queued.
  cluster.cancel(queued.first);
  cluster.pump();
  EXPECT_EQ(scheduler()->waiting(), 0u);
  cluster.cancel(prefilling.first);
  cluster.pump();
  EXPECT_EQ(scheduler()->free_slots(), 1u);
  // Decoding.
  const auto decoding = cluster.submit(one_sequence({1, 2, 3}, 100'000));
  cluster.pump_until([&] { return decoding.second->sequence().tokens.size() > 3; });
  cluster.cancel(decoding.first);
  cluster.pump();
  EXPECT_EQ(scheduler()->free_slots(), 1u);
  // What comes next finds a clean slot.
  const auto next = cluster.submit(one_sequence({1027, 364, 259}, 5)).second;
  cluster.pump_until_idle();
  LoopbackCluster fresh(demo_options());
  const auto expected = fresh.submit(one_sequence({1027, 364, 259}, 5)).second;
  fresh.pump_until_idle();
  EXPECT_EQ(next->sequence().ids(), expected->sequence().ids());
}

TEST(ClusterRequests, AFullQueueIsAnAnswerAndWhatWasTakenIsServed) {
  auto options = demo_options();
  options.slots = 1;
  options.max_queue = 2;
  LoopbackCluster cluster(options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i)
    sinks.push_back(cluster.submit(one_sequence({1, 2, 3}, 4)).second);
  cluster.pump_until_idle();
  int served = 0;
  for (const auto& sink : sinks) {
    if (sink->finished()) {
      ++served;
      continue;
    }
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, Errc::kOverloaded);
    EXPECT_GE(sink->retry_after_s(), 1u);
  }
  EXPECT_EQ(served, 3);
}

TEST(ClusterRequests, ATokenOutsideTheVocabularyIsRefused) {
  LoopbackCluster cluster(demo_options());
  const auto sink = cluster.submit(one_sequence({1, 4096}, 4)).second;
  cluster.pump_until_idle();
  ASSERT_TRUE(sink->error().has_value());
  EXPECT_EQ(sink->error()->code, Errc::kInvalidArgument);
  EXPECT_EQ(sink->retry_after_s(), 0u) << "trying again does not help";
}

TEST(ClusterRequests, ADeadlineEndsARequestAndFreesItsSlot) {
  LoopbackCluster cluster(demo_options(2));
  auto spec = one_sequence({1, 2, 3}, 1'000'000);
  spec.timeout_ms = 1500;
  const auto sink = cluster.submit(spec).second;
  cluster.advance(1000 * kMs);
  EXPECT_FALSE(sink->over());
  cluster.advance(1000 * kMs);
  ASSERT_TRUE(sink->error().has_value());
  EXPECT_EQ(sink->error()->code, Errc::kDeadlineExceeded);
  EXPECT_GT(sink->sequence().tokens.size(), 0u);
  cluster.pump_until_idle();
  EXPECT_EQ(cluster.leader().scheduler()->free_slots(), 4u);
}

}  // namespace
}  // namespace krait::test
