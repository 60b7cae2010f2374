// Every sequence that a group was asked for is reported once, with how it ended.
#include <map>

#include "tests/unit/coordinator/requests/core_fixture.h"

namespace krait::test {
namespace {

struct Ends : CoreFixture {
  void SetUp() override {
    requests::CoreObserver observer;
    observer.on_sequence_end = [this](const requests::SequenceReport& report) { ++ends[report.reason]; };
    make(1, observer);
    core->from_group(0, serving());
  }
  using Counts = std::map<wire::FinishReason, int>;
  Counts ends;
};

TEST_F(Ends, EachKindIsReported) {
  submit(spec_of());
  finish(number(), wire::FinishReason::kLength, 0);
  EXPECT_EQ(ends, (Counts{{wire::FinishReason::kLength, 1}}));

  submit(spec_of(2));
  core->cancel(last_id);
  EXPECT_EQ(ends[wire::FinishReason::kCancelled], 2);

  auto late = spec_of();
  late.timeout_ms = 5;
  const auto sink = submit(late);
  clock.advance(5 * kMs - 1);
  core->tick();
  EXPECT_FALSE(sink->over());
  clock.advance(1);
  core->tick();
  ASSERT_TRUE(sink->error().has_value());
  EXPECT_EQ(sink->error()->code, Errc::kDeadlineExceeded);
  EXPECT_EQ(ends[wire::FinishReason::kDeadline], 1);

  take<wire::Submit>();
  submit(spec_of());
  finish(number(), wire::FinishReason::kDeadline, 0);
  EXPECT_EQ(ends[wire::FinishReason::kDeadline], 2);

  submit(spec_of(3));
  core->from_group(0, serving(0, 6));  // restarted
  EXPECT_EQ(ends[wire::FinishReason::kError], 3);
  EXPECT_EQ(core->open_requests(), 0u);
}

TEST_F(Ends, WhatWasRefusedNeverBegan) {
  submit(spec_of(3));
  const auto submits = take<wire::Submit>();
  ASSERT_EQ(submits.size(), 3u);
  core->from_group(0, wire::Rejected{submits[1].request, Error{Errc::kOverloaded, "full", ""}, 7});
  EXPECT_EQ(ends, (Counts{{wire::FinishReason::kError, 2}})) << "the others had been accepted";
  const auto cancels = take<wire::Cancel>();
  EXPECT_EQ(cancels.size(), 2u) << "nothing is cancelled that the group does not have";
}

TEST_F(Ends, WhatEndsBeforeItWasSentIsNotSent) {
  submit(spec_of(3));
  core->cancel(last_id);
  submit(spec_of());
  EXPECT_EQ(take<wire::Submit>().size(), 1u);
  EXPECT_EQ(take<wire::Cancel>().size(), 0u);
}

TEST_F(Ends, OnlyWhatPassesByItselfIsWorthAnotherTry) {
  for (const auto& [code, retry_after_s] : {std::pair{Errc::kInternal, 0u},
                                            {Errc::kInvalidArgument, 0u},
                                            {Errc::kUnavailable, 1u},
                                            {Errc::kOverloaded, 1u}}) {
    const auto sink = submit(spec_of());
    wire::Finished finished;
    finished.request = number();
    finished.reason = wire::FinishReason::kError;
    finished.error = Error{code, "logits are no numbers", ""};
    core->from_group(0, finished);
    ASSERT_TRUE(sink->error().has_value());
    EXPECT_EQ(sink->error()->code, code);
    EXPECT_EQ(sink->retry_after_s(), retry_after_s) << errc_info(code).label;
  }
}

TEST_F(Ends, DeadlinesOfRequestsThatHaveEndedMeanNothing) {
  for (int i = 0; i < 3; ++i) {
    auto asked = spec_of();
    asked.timeout_ms = 5;
    submit(asked);
    if (i == 0) core->cancel(last_id);
    if (i == 1) finish(take<wire::Submit>().back().request, wire::FinishReason::kStop, 0);
  }
  clock.advance(5 * kMs);
  core->tick();
  EXPECT_EQ(ends, (Counts{{wire::FinishReason::kStop, 1},
                          {wire::FinishReason::kCancelled, 1},
                          {wire::FinishReason::kDeadline, 1}}));
}

TEST_F(Ends, TheGroupThatTakesASequenceOnSaysHowItComputes) {
  struct Sink final : requests::GenerationSink {
    void on_chunk(requests::OutputChunk chunk) override { ids.push_back(chunk.numerics_id); }
    void on_error(const Error&, uint32_t) override {}
    std::vector<std::string> ids;
  };
  const auto sink = std::make_shared<Sink>();
  core->submit(++last_id, spec_of(), sink);
  const uint64_t request = number();
  core->from_group(0, wire::Accepted{request, "numerics"});
  core->from_group(0, wire::Accepted{request + 1, "nobody's"});
  tokens(request, 0, {5});
  EXPECT_EQ(sink->ids, (std::vector<std::string>{"numerics", ""}));
}

}  // namespace
}  // namespace krait::test
