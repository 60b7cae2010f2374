// Which group runs a request, and what becomes of it when something is lost.
#include "tests/unit/coordinator/requests/core_fixture.h"

namespace krait::test {
namespace {

class Groups : public CoreFixture {
 protected:
  void expect_error(const RecordingSink& sink, Errc code, const std::string& word, bool may_retry) {
    ASSERT_TRUE(sink.error().has_value());
    EXPECT_EQ(sink.error()->code, code);
    EXPECT_NE(sink.error()->message.find(word), std::string::npos) << sink.error()->message;
    EXPECT_EQ(sink.retry_after_s() > 0, may_retry);
  }
  void beat(size_t group, int64_t ns) {
    while (ns > 0) {
      clock.advance(std::min(ns, limits::kHeartbeatNs));
      ns -= limits::kHeartbeatNs;
      core->from_group(group, serving());
      core->tick();
    }
  }
};

TEST_F(Groups, HelloIsSaidUntilTheGroupAnswersThenHeartbeats) {
  make(2);
  EXPECT_EQ(take<wire::Hello>(0).size(), 1u);
  EXPECT_EQ(take<wire::Hello>(1).at(0).incarnation, 11u);
  core->from_group(1, serving());
  clock.advance(limits::kHeartbeatNs);
  core->tick();
  EXPECT_EQ(take<wire::Hello>(0).size(), 1u);
  EXPECT_TRUE(take<wire::Hello>(1).empty());
  EXPECT_EQ(take<wire::Heartbeat>(1).at(0).incarnation, 11u);
  const auto groups = core->groups();
  EXPECT_FALSE(groups[0].serving);
  EXPECT_TRUE(groups[1].serving);
  EXPECT_TRUE(groups[1].connected);
}

TEST_F(Groups, WithoutAServingGroupARequestIsRefusedAtOnce) {
  make(1);
  expect_error(*submit(spec_of()), Errc::kUnavailable, "no group", true);
  auto loading = serving();
  loading.state = wire::GroupState::kLoading;
  core->from_group(0, loading);
  expect_error(*submit(spec_of()), Errc::kUnavailable, "no group", true);
  auto draining = serving();
  draining.state = wire::GroupState::kDraining;
  core->from_group(0, draining);
  expect_error(*submit(spec_of()), Errc::kUnavailable, "no group", true);
  EXPECT_EQ(core->open_requests(), 0u);
  EXPECT_TRUE(take<wire::Submit>().empty());
}

TEST_F(Groups, TheLeastLoadedGroupIsChosen) {
  make(2);
  core->from_group(0, serving(0.5));
  core->from_group(1, serving(0.1));
  submit(spec_of());
  EXPECT_EQ(take<wire::Submit>(1).size(), 1u);
  core->from_group(1, serving(2.0));
  submit(spec_of());
  EXPECT_EQ(take<wire::Submit>(0).size(), 1u);
}

TEST_F(Groups, EqualGroupsShareTheWork) {
  make(2);
  for (size_t group = 0; group < 2; ++group)
    core->from_group(group, serving());
  for (int i = 0; i < 10; ++i)
    submit(spec_of());
  EXPECT_EQ(take<wire::Submit>(0).size(), 5u);
  EXPECT_EQ(take<wire::Submit>(1).size(), 5u);
  EXPECT_EQ(core->groups()[0].open_sequences, 5u);
}

TEST_F(Groups, AGroupOfAnotherModelIsNotChosen) {
  make(2);
  auto other = serving();
  other.model = "other";
  core->from_group(0, other);
  core->from_group(1, serving(5));
  submit(spec_of());
  EXPECT_EQ(take<wire::Submit>(1).size(), 1u);
}

TEST_F(Groups, AGapInTheTokensFailsTheRequestOutLoud) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  tokens(request, 0, {5, 6});
  tokens(request, 3, {7});
  expect_error(*sink, Errc::kInternal, "lost", false);
  EXPECT_EQ(take<wire::Cancel>().size(), 1u);
  EXPECT_EQ(core->open_requests(), 0u);
}

TEST_F(Groups, ARepeatedTokenFailsTheRequestOutLoud) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  tokens(request, 0, {5, 6});
  tokens(request, 1, {6});
  expect_error(*sink, Errc::kInternal, "lost", false);
}

TEST_F(Groups, AGapInThePromptLogprobsFailsTheRequestOutLoud) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  wire::Tokens message;
  message.chunks.push_back({number(), 0, {}, 2, {{1, 0, {}}}});
  core->from_group(0, message);
  expect_error(*sink, Errc::kInternal, "lost", false);
}

TEST_F(Groups, AnEndWithoutThePromptLogprobsThatWereAskedForFailsTheRequestOutLoud) {
  make(1);
  core->from_group(0, serving());
  auto spec = spec_of();
  spec.shared.sampling.prompt_logprobs = true;
  const auto sink = submit(spec);
  finish(number(), wire::FinishReason::kLength, 0);  // what was said before it is lost
  expect_error(*sink, Errc::kInternal, "lost", false);
}

TEST_F(Groups, AnEndThatCountsOtherTokensFailsTheRequestOutLoud) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  tokens(request, 0, {5, 6});
  finish(request, wire::FinishReason::kLength, 3);
  expect_error(*sink, Errc::kInternal, "lost", false);
}

TEST_F(Groups, ASilentGroupEndsEveryOpenRequestOfItsOwn) {
  make(2);
  core->from_group(0, serving());
  const auto first = submit(spec_of(3));
  const auto second = submit(spec_of());
  core->from_group(1, serving());
  core->from_group(0, serving(9));
  const auto elsewhere = submit(spec_of());
  beat(1, limits::kPeerTimeoutNs - limits::kHeartbeatNs);
  EXPECT_FALSE(first->over());
  beat(1, 2 * limits::kHeartbeatNs);
  expect_error(*first, Errc::kUnavailable, "silent", true);
  expect_error(*second, Errc::kUnavailable, "silent", true);
  EXPECT_FALSE(elsewhere->over());
  EXPECT_FALSE(core->groups()[0].serving);
  EXPECT_EQ(core->groups()[0].open_sequences, 0u);
  core->from_group(0, serving());
  EXPECT_FALSE(core->groups()[0].serving) << "this may have been on its way for long (a network that was cut)";
  beat(1, limits::kHeartbeatNs);
  core->from_group(0, serving());
  EXPECT_TRUE(core->groups()[0].serving) << "it is heard again";
}

TEST_F(Groups, WhoDidNotRunForAWhileTrustsNothingThatWaitedForIt) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  // Stopped and going on (SIGSTOP, SIGCONT): the leader has given us up meanwhile, or is dead. What it said before
  // waits.
  clock.advance(limits::kPeerTimeoutNs + 1);
  core->from_group(0, serving());
  EXPECT_FALSE(core->groups()[0].serving);
  expect_error(*sink, Errc::kUnavailable, "did not run", true);
  tokens(request, 0, {5});
  expect_error(*submit(spec_of()), Errc::kUnavailable, "", true);
  clock.advance(limits::kHeartbeatNs);
  core->tick();
  EXPECT_FALSE(take<wire::Hello>(0).empty());
  core->from_group(0, serving());
  EXPECT_TRUE(core->groups()[0].serving) << "this was said in answer to the Hello";
  EXPECT_FALSE(submit(spec_of())->over());
}

TEST_F(Groups, ARequestAfterAPauseIsNotSentToAGroupOfBefore) {
  make(1);
  core->from_group(0, serving());
  take<wire::Submit>();
  clock.advance(limits::kPeerTimeoutNs + 1);
  const auto sink = submit(spec_of());
  EXPECT_TRUE(sink->over());
  EXPECT_TRUE(take<wire::Submit>().empty());
}

TEST_F(Groups, AGroupThatStopsServingSaysWhy) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  auto waiting = serving();
  waiting.state = wire::GroupState::kWaiting;
  waiting.detail = "rank 1 is silent";
  core->from_group(0, waiting);
  expect_error(*sink, Errc::kUnavailable, "rank 1 is silent", true);
  EXPECT_TRUE(core->groups()[0].connected);
  EXPECT_FALSE(core->groups()[0].serving);
}

TEST_F(Groups, ADrainingGroupFinishesItsRequests) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  auto draining = serving();
  draining.state = wire::GroupState::kDraining;
  core->from_group(0, draining);
  tokens(request, 0, {5});
  finish(request, wire::FinishReason::kLength, 1);
  EXPECT_TRUE(sink->finished());
}

TEST_F(Groups, ARestartedLeaderHasForgottenTheRequests) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  core->from_group(0, serving(0, 6));
  expect_error(*sink, Errc::kUnavailable, "restarted", true);
  EXPECT_TRUE(core->groups()[0].serving);
}

TEST_F(Groups, ARejectedSequenceTakesItsRequestWithIt) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of(3));
  const auto submits = take<wire::Submit>();
  tokens(submits[0].request, 0, {5});
  core->from_group(0, wire::Rejected{submits[1].request, Error{Errc::kOverloaded, "the queue is full", ""}, 7});
  expect_error(*sink, Errc::kOverloaded, "the queue is full", true);
  EXPECT_EQ(sink->retry_after_s(), 7u);
  std::set<uint64_t> cancelled;
  for (const auto& cancel : take<wire::Cancel>())
    cancelled.insert(cancel.request);
  EXPECT_TRUE(cancelled.contains(submits[0].request));
  EXPECT_TRUE(cancelled.contains(submits[2].request));
}

TEST_F(Groups, WhatTheGroupReportsBecomesTheRequestsError) {
  make(1);
  core->from_group(0, serving());
  const std::vector<std::pair<wire::FinishReason, Errc>> cases = {
      {wire::FinishReason::kDeadline, Errc::kDeadlineExceeded},
      {wire::FinishReason::kCancelled, Errc::kUnavailable},
      {wire::FinishReason::kError, Errc::kInternal}};
  for (const auto& [reason, code] : cases) {
    const auto sink = submit(spec_of());
    finish(number(), reason, 0);
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, code);
  }
}

TEST_F(Groups, ARequestRunsIntoItsTimeLimit) {
  make(1);
  core->from_group(0, serving());
  auto short_one = spec_of();
  short_one.timeout_ms = 1000;
  const auto sink = submit(std::move(short_one));
  const auto other = submit(spec_of());
  const auto submits = take<wire::Submit>();
  EXPECT_EQ(submits.at(0).deadline_ms, 1000);
  core->from_group(0, wire::Accepted{submits.at(1).request, "id"});
  beat(0, 1000 * kMs);
  expect_error(*sink, Errc::kDeadlineExceeded, "time limit", false);
  EXPECT_EQ(take<wire::Cancel>().size(), 1u);
  EXPECT_FALSE(other->over());
  beat(0, 59'000 * kMs);
  expect_error(*other, Errc::kDeadlineExceeded, "time limit", false);
}

TEST_F(Groups, CancelTellsTheGroupAndNobodyElse) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of(2));
  const auto submits = take<wire::Submit>();
  tokens(submits[1].request, 0, {5, 6});
  core->cancel(last_id);
  const auto cancels = take<wire::Cancel>();
  ASSERT_EQ(cancels.size(), 2u);
  EXPECT_EQ(cancels[0].keep, 0u);
  EXPECT_EQ(cancels[1].keep, 2u);
  EXPECT_FALSE(sink->over());
  tokens(submits[1].request, 2, {7});
  finish(submits[1].request, wire::FinishReason::kCancelled, 3);
  EXPECT_FALSE(sink->over()) << "who has gone is told nothing";
  core->cancel(last_id);
  core->cancel(12345);
  EXPECT_EQ(core->open_requests(), 0u);
}

TEST_F(Groups, NewsOfOneGroupDoNotTouchAnothersSequence) {
  make(2);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  tokens(request, 0, {5}, 1);
  finish(request, wire::FinishReason::kLength, 0, 1);
  EXPECT_TRUE(sink->sequence().tokens.empty());
  EXPECT_FALSE(sink->over());
}

TEST_F(Groups, ARequestThatCannotBeSentDoesNotWait) {
  make(1);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const auto submits = take<wire::Submit>();
  core->send_failed(0, wire::Heartbeat{});
  EXPECT_FALSE(sink->over());
  core->send_failed(0, submits[0]);
  expect_error(*sink, Errc::kUnavailable, "takes no messages", true);
}

TEST_F(Groups, ASubmitThatWasLostOnTheWayDoesNotWaitForTheTimeLimit) {
  make(1);
  core->from_group(0, serving());
  const auto lost = submit(spec_of());
  take<wire::Submit>();
  beat(0, limits::kHeartbeatNs);
  const auto heard = submit(spec_of());
  core->from_group(0, wire::Accepted{number(), "id"});
  beat(0, 2 * limits::kPeerTimeoutNs);
  EXPECT_FALSE(lost->error().has_value()) << "the leader may have much to read";
  beat(0, limits::kPeerTimeoutNs);
  expect_error(*lost, Errc::kUnavailable, "did not answer", true);
  EXPECT_EQ(take<wire::Cancel>().size(), 1u) << "it may have arrived, and the answer been lost";
  beat(0, 2 * limits::kPeerTimeoutNs);
  EXPECT_FALSE(heard->error().has_value());
}

TEST_F(Groups, DrainRefusesWhatIsNew) {
  make(1);
  core->from_group(0, serving());
  const auto before = submit(spec_of());
  core->drain();
  expect_error(*submit(spec_of()), Errc::kUnavailable, "shutting down", true);
  EXPECT_FALSE(before->over());
  finish(number(), wire::FinishReason::kLength, 0);
  EXPECT_TRUE(before->finished());
}

TEST_F(Groups, WhatIsMeasuredIsTold) {
  std::vector<int64_t> first;
  std::vector<int64_t> between;
  std::vector<int64_t> whole;
  std::vector<requests::SequenceReport> reports;
  requests::CoreObserver observer;
  observer.on_first_token = [&](int64_t ns) { first.push_back(ns); };
  observer.on_inter_token = [&](int64_t ns) { between.push_back(ns); };
  observer.on_request_end = [&](int64_t ns) { whole.push_back(ns); };
  observer.on_sequence_end = [&](const requests::SequenceReport& report) { reports.push_back(report); };
  make(1, observer);
  core->from_group(0, serving());
  submit(spec_of());
  const uint64_t request = number();
  clock.advance(100);
  tokens(request, 0, {5});
  clock.advance(30);
  tokens(request, 1, {5, 6, 7});
  clock.advance(7);
  finish(request, wire::FinishReason::kLength, 4);
  EXPECT_EQ(first, std::vector<int64_t>{100});
  EXPECT_EQ(between, std::vector<int64_t>{10}) << "shared by the tokens that came together";
  EXPECT_EQ(whole, std::vector<int64_t>{137});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].prompt_tokens, 3u);
  EXPECT_EQ(reports[0].generated, 4u);
  EXPECT_TRUE(reports[0].timed);
}

}  // namespace
}  // namespace krait::test
