// What a request's client sees of its tokens: text, stop strings, ends.
#include "tests/unit/coordinator/requests/core_fixture.h"

namespace krait::test {
namespace {

class Output : public CoreFixture {
 protected:
  void SetUp() override {
    make(1);
    core->from_group(0, serving());
  }

  std::shared_ptr<RecordingSink> submit_with_stop(const std::string& stop, bool include_stop = false) {
    auto spec = spec_of();
    spec.shared.stop = std::make_shared<const tokenizer::StopStrings>(std::vector<std::string>{"never said", stop});
    spec.shared.include_stop = include_stop;
    return submit(std::move(spec));
  }
};

TEST_F(Output, TextIsThatOfTheTokensAndTheEndIsTold) {
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  const auto said = ids(" It was a fine morning, \xe2\x80\x94 and caf\xc3\xa9!");
  for (uint32_t i = 0; i < said.size(); ++i)
    tokens(request, i, {said[i]});
  EXPECT_FALSE(sink->over());
  finish(request, wire::FinishReason::kLength, static_cast<uint32_t>(said.size()));
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " It was a fine morning, \xe2\x80\x94 and caf\xc3\xa9!");
  EXPECT_EQ(sink->sequence().ids(), said);
  EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kLength);
  EXPECT_EQ(core->open_requests(), 0u);
  EXPECT_TRUE(take<wire::Cancel>().empty());
}

TEST_F(Output, AStopStringAcrossTokensEndsTheSequenceAndTheGroupIsToldWhatToKeep) {
  const auto sink = submit_with_stop("fine morn");
  const uint64_t request = number();
  const auto said = ids(" It was a fine morning, and so on");
  // The stop string lies across at least two tokens, and text after it is on the way already.
  uint32_t sent_tokens = 0;
  for (; sent_tokens < said.size() && !sink->over(); ++sent_tokens)
    tokens(request, sent_tokens, {said[sent_tokens]});
  ASSERT_TRUE(sink->finished());
  EXPECT_LT(sent_tokens, said.size());
  EXPECT_EQ(sink->sequence().text, " It was a ");
  EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kStop);
  EXPECT_EQ(sink->sequence().end->stop_string, "fine morn");
  EXPECT_EQ(sink->sequence().end->generated, sent_tokens);
  const auto cancels = take<wire::Cancel>();
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].request, request);
  EXPECT_EQ(cancels[0].keep, sent_tokens);
  tokens(request, sent_tokens, {said[sent_tokens]});
  finish(request, wire::FinishReason::kCancelled, sent_tokens + 1);  // the sink would complain
  EXPECT_EQ(core->open_requests(), 0u);
}

TEST_F(Output, TokensBeyondTheStopInOneMessageAreNotTold) {
  const auto sink = submit_with_stop("fine");
  const uint64_t request = number();
  const auto said = ids(" It was a fine morning, and so on");
  tokens(request, 0, said);
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " It was a ");
  EXPECT_LT(sink->sequence().tokens.size(), said.size());
}

TEST_F(Output, TheStopStringStaysWhereItIsAskedFor) {
  const auto sink = submit_with_stop("fine morn", true);
  tokens(number(), 0, ids(" It was a fine morning"));
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " It was a fine morn");
}

TEST_F(Output, WhatWasHeldBackComesWithTheEnd) {
  const auto sink = submit_with_stop("fine morning, and more");
  const uint64_t request = number();
  const auto said = ids(" It was a fine morning,");
  tokens(request, 0, said);
  EXPECT_EQ(sink->sequence().text, " It was a ");
  EXPECT_EQ(sink->sequence().tokens.size(), said.size()) << "tokens are not held back";
  finish(request, wire::FinishReason::kLength, static_cast<uint32_t>(said.size()));
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " It was a fine morning,");
  EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kLength);
}

TEST_F(Output, ACharacterThatIsNeverWholeComesAsReplacement) {
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  auto said = ids("\xe2\x80\x94");
  ASSERT_GT(said.size(), 0u);
  // A lone first byte of it.
  const auto lone = demo_tokenizer()->token_to_id("\xc3\xa2");  // byte 0xe2, as byte-level alphabets spell it
  ASSERT_TRUE(lone.has_value());
  tokens(request, 0, {*lone});
  EXPECT_EQ(sink->sequence().text, "");
  finish(request, wire::FinishReason::kLength, 1);
  EXPECT_EQ(sink->sequence().text, "\xef\xbf\xbd");
}

TEST_F(Output, AStopTokenHasNoTextAndCounts) {
  auto spec = spec_of();
  const auto said = ids(" It was");
  spec.shared.sampling.stop_ids = {said.back()};
  const auto sink = submit(std::move(spec));
  const uint64_t request = number();
  tokens(request, 0, said);
  finish(request, wire::FinishReason::kStop, static_cast<uint32_t>(said.size()));
  ASSERT_TRUE(sink->finished());
  EXPECT_EQ(sink->sequence().text, " It");
  EXPECT_EQ(sink->sequence().ids(), said);
  EXPECT_EQ(sink->sequence().end->reason, requests::EndReason::kStop);
  EXPECT_TRUE(sink->sequence().end->stop_string.empty());
}

TEST_F(Output, PromptLogprobsComeInOrder) {
  auto spec = spec_of();
  spec.shared.sampling.prompt_logprobs = true;
  const auto sink = submit(std::move(spec));
  const uint64_t request = number();
  for (const uint32_t position : {1u, 2u}) {
    wire::Tokens message;
    auto& chunk = message.chunks.emplace_back();
    chunk.request = request;
    chunk.first_position = position;
    chunk.prompt_logprobs = {{static_cast<int32_t>(position), -1.5f, {}}};
    core->from_group(0, message);
  }
  finish(request, wire::FinishReason::kLength, 0);
  ASSERT_TRUE(sink->finished());
  ASSERT_EQ(sink->sequence().prompt_logprobs.size(), 2u);
  EXPECT_EQ(sink->sequence().prompt_logprobs[1].token, 2);
}

TEST_F(Output, PromptsAndChoicesAreKeptApart) {
  // Two prompts, three choices each, as the API lays them out.
  auto spec = spec_of();
  spec.prompts = {{{1}, 99}, {{2}, 100}};
  spec.n = 3;
  const auto sink = submit(std::move(spec));
  const auto submits = take<wire::Submit>();
  ASSERT_EQ(submits.size(), 6u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(submits[i].tokens, std::vector<int32_t>{static_cast<int32_t>(1 + i / 3)});
    EXPECT_EQ(submits[i].sampling.choice, i % 3);
    EXPECT_EQ(submits[i].sampling.seed, 99u + i / 3);
    EXPECT_EQ(submits[i].model, "m");
    EXPECT_EQ(submits[i].deadline_ms, 60'000);
  }
  // They end in another order than they began.
  for (const size_t i : {4u, 0u, 5u, 2u, 1u, 3u}) {
    EXPECT_FALSE(sink->finished());
    tokens(submits[i].request, 0, ids(fmt::format(" number {}", i)));
    finish(submits[i].request, wire::FinishReason::kLength,
           static_cast<uint32_t>(ids(fmt::format(" number {}", i)).size()));
  }
  EXPECT_TRUE(sink->finished());
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(sink->sequence(i).text, fmt::format(" number {}", i));
  EXPECT_EQ(core->open_requests(), 0u);
}

TEST_F(Output, WithoutATokenizerTokensHaveNoTextAndComeAllTheSame) {
  requests::CoreOptions options;
  options.groups = {"g"};
  options.addresses = {"a"};
  core.emplace(options, clock);
  core->from_group(0, serving());
  const auto sink = submit(spec_of());
  const uint64_t request = number();
  tokens(request, 0, {5, 6});
  finish(request, wire::FinishReason::kLength, 2);
  EXPECT_EQ(sink->sequence().text, "");
  EXPECT_EQ(sink->sequence().ids(), (std::vector<int32_t>{5, 6}));
}

}  // namespace
}  // namespace krait::test
