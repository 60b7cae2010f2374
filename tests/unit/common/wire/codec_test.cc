#include "common/wire/codec.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/base/limits.h"
#include "tests/support/random_message.h"

namespace krait::wire {
namespace {

// Segment table, root pointer, then the envelope's data: the protocol and the kind's number.
constexpr size_t kProtocolOffset = 16;
constexpr size_t kKindOffset = 20;

Error refused(const Message& message) {
  Result<Message> result = decode(encode(message));
  if (result.ok()) return Error{Errc::kInternal, fmt::format("a {} was not refused", message_name(message))};
  return result.error();
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(Codec, EveryMessageComesBackAsItWas) {
  SplitMix64 random(20240607);
  for (int round = 0; round < 1000; ++round) {
    for (size_t kind = 0; kind < test::kMessageKinds; ++kind) {
      const Message sent = test::random_message(random, kind, round % 5 == 0 ? 40 : 6);
      ASSERT_EQ(sent.index(), kind);
      const std::vector<std::byte> bytes = encode(sent);
      const Result<Message> received = decode(bytes);
      ASSERT_TRUE(received.ok()) << message_name(sent) << ": " << to_string(received.error());
      ASSERT_TRUE(*received == sent) << message_name(sent) << " in round " << round;
    }
  }
}

// Bytes written by the `capnp encode` program from the text
//   (protocol = 2, cancel = (request = 81985529216486895, keep = 7))  and
//   (protocol = 2, leave = (epoch = 5, reason = "bye")).
// They keep their meaning for as long as the protocol's version stays.
constexpr std::string_view kCancelHex =
    "0000000005000000000000000100010002000000030000000000000002000000efcdab89674523010700000000000000";
constexpr std::string_view kLeaveHex =
    "000000000600000000000000010001000200000011000000000000000100010005000000000000000100000022000000"
    "6279650000000000";

TEST(Codec, ReadsWhatAnotherProgramWrote) {
  const Result<Message> cancel = decode(from_hex(kCancelHex));
  ASSERT_TRUE(cancel.ok()) << to_string(cancel.error());
  EXPECT_TRUE(*cancel == Message(Cancel{.request = 0x0123456789ABCDEF, .keep = 7}));
  EXPECT_EQ(encode(*cancel), from_hex(kCancelHex));

  const Result<Message> leave = decode(from_hex(kLeaveHex));
  ASSERT_TRUE(leave.ok()) << to_string(leave.error());
  EXPECT_TRUE(*leave == Message(Leave{.epoch = 5, .reason = "bye"}));
}

TEST(Codec, AStartOddlyPlacedInMemoryIsFine) {
  const Message sent = Cancel{.request = 3, .keep = 4};
  const std::vector<std::byte> bytes = encode(sent);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    const Result<Message> received = decode(std::span(moved).subspan(shift));
    ASSERT_TRUE(received.ok());
    EXPECT_TRUE(*received == sent);
  }
}

TEST(Codec, AnotherVersionIsRefusedByName) {
  std::vector<std::byte> bytes = encode(Heartbeat{.incarnation = 1});
  const uint32_t other = kProtocolVersion + 41;
  std::memcpy(bytes.data() + kProtocolOffset, &other, sizeof(other));
  const Result<Message> received = decode(bytes);
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, Errc::kProtocol);
  EXPECT_NE(received.error().message.find(fmt::format("version {}", other)), std::string::npos);
  EXPECT_NE(received.error().message.find(fmt::format("version {}", kProtocolVersion)), std::string::npos);
}

TEST(Codec, AnUnknownKindIsRefused) {
  std::vector<std::byte> bytes = encode(Heartbeat{.incarnation = 1});
  const uint16_t kind = test::kMessageKinds + 5;
  std::memcpy(bytes.data() + kKindOffset, &kind, sizeof(kind));
  const Result<Message> received = decode(bytes);
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, Errc::kProtocol);
  EXPECT_NE(received.error().message.find("kind"), std::string::npos);
}

TEST(Codec, NoBytesOddBytesTooManyBytesAndTrailingBytesAreRefused) {
  EXPECT_EQ(decode({}).error().code, Errc::kCorrupt);
  EXPECT_EQ(decode(std::vector<std::byte>(8)).error().code, Errc::kCorrupt);
  EXPECT_EQ(decode(std::vector<std::byte>(17)).error().code, Errc::kCorrupt);
  EXPECT_EQ(decode(std::vector<std::byte>(limits::kMaxWireMessageBytes + 8)).error().code, Errc::kProtocol);
  std::vector<std::byte> bytes = encode(Drain{});
  bytes.resize(bytes.size() + 8);
  EXPECT_EQ(decode(bytes).error().code, Errc::kCorrupt);
}

TEST(Codec, ListsBeyondTheirLimitsAreRefused) {
  const auto names = [](const Error& error, std::string_view field) {
    EXPECT_EQ(error.code, Errc::kProtocol) << error.message;
    EXPECT_NE(error.message.find(field), std::string::npos) << error.message;
  };
  names(refused(Submit{.tokens = std::vector<int32_t>(limits::kMaxPromptTokens + 1)}), "tokens");
  names(refused(Submit{.marks = std::vector<uint32_t>(limits::kMaxMarks + 1)}), "marks");
  names(refused(Submit{.sampling = {.logit_bias = std::vector<LogitBias>(limits::kMaxLogitBias + 1)}}), "logit_bias");
  names(refused(Submit{.sampling = {.stop_ids = std::vector<int32_t>(limits::kMaxStopIds + 1)}}), "stop_ids");
  names(refused(Tokens{.chunks = std::vector<TokenChunk>(limits::kMaxSlots + 1)}), "chunks");
  names(refused(Tokens{.chunks = {{.tokens = {{.top = std::vector<TokenLogprob>(limits::kMaxLogprobs + 1)}}}}}),
        "alternatives");
  names(refused(Tokens{.chunks = {{.prompt_logprobs = std::vector<TokenInfo>(limits::kMaxEchoLogprobTokens + 1)}}}),
        "prompt_logprobs");
  names(refused(Status{.ranks = std::vector<RankStatus>(limits::kMaxWorld + 1)}), "ranks");
  names(refused(Form{.world = 2, .shares = {1, 1, 1}}), "shares");
  names(refused(Form{.world = 2, .plan = {.sums = std::vector<SumCodec>(limits::kMaxHiddenSums + 1)}}), "sums");
  names(
      refused(Form{.world = 2,
                   .plan = {.codecs_by_size = std::vector<SizeCodec>(limits::kMaxSizeCodecs + 1, SizeCodec{1, "x"})}}),
      "codecs_by_size");
  names(refused(Form{.world = 2,
                     .plan = {.algorithms = std::vector<SumAlgorithm>(limits::kMaxSumAlgorithms + 1,
                                                                      SumAlgorithm{"x", 1, false, 4096})}}),
        "algorithms");
  names(refused(Step{.runs = std::vector<StepRun>(limits::kMaxStepRows + 1)}), "runs");
  names(refused(Step{.admissions = std::vector<Admission>(limits::kMaxSlots + 1)}), "admissions");
  names(refused(StepDone{.samples = std::vector<RowSample>(limits::kMaxStepRows + 1)}), "samples");
  names(refused(Hello{.name = std::string(limits::kMaxWireNameBytes + 1, 'x')}), "name");
}

TEST(Codec, RowsOfAllRunsTogetherAreLimited) {
  const std::vector<int32_t> half(limits::kMaxStepRows / 2);
  EXPECT_TRUE(decode(encode(Step{.runs = {{.tokens = half}, {.tokens = half}}})).ok());
  EXPECT_EQ(refused(Step{.runs = {{.tokens = half}, {.tokens = half}, {}}}).code, Errc::kProtocol);
}

TEST(Codec, ValuesBeyondTheirLimitsAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Message> beyond = {
      Submit{.tokens = {-1}},
      Submit{.tokens = {static_cast<int32_t>(limits::kMaxVocab)}},
      Submit{.tokens = {1, 2}, .generated = 3},
      Submit{.max_tokens = static_cast<uint32_t>(limits::kMaxSequenceTokens) + 1},
      Submit{.sampling = {.temperature = nan}},
      Submit{.sampling = {.top_p = infinity}},
      Submit{.sampling = {.logit_bias = {{.token = 1, .bias = nan}}}},
      Submit{.sampling = {.stop_ids = {-2}}},
      Submit{.sampling = {.vocab_limit = static_cast<uint32_t>(limits::kMaxVocab) + 1}},
      Submit{.sampling = {.logprobs = limits::kMaxLogprobs + 1}},
      Submit{.sampling = {.logprobs = -2}},
      Submit{.deadline_ms = -1},
      Submit{.deadline_ms = limits::kMaxDeadlineMs + 1},
      Tokens{.chunks = {{.tokens = {{.token = -1}}}}},
      Finished{.reason = static_cast<FinishReason>(9)},
      Finished{.queue_us = -1},
      Finished{.error = {.code = static_cast<Errc>(200)}},
      Rejected{.error = {.code = static_cast<Errc>(255)}},
      Status{.state = static_cast<GroupState>(77)},
      Status{.slots = limits::kMaxSlots + 1},
      Status{.backlog_seconds = nan},
      Status{.tokens_per_second = -1},
      Status{.ranks = {{.metrics_port = 65'536}}},
      Join{.rank = limits::kMaxWorld, .world = 1},
      Join{.rank = 0, .world = 0},
      Join{.world = limits::kMaxWorld + 1},
      Join{.world = 1, .speed = infinity},
      Form{.world = 1, .shares = {nan}},
      Form{.world = 1, .plan = {.sums = {{.layer = static_cast<uint32_t>(limits::kMaxLayers)}}}},
      Form{.world = 1, .plan = {.codecs_by_size = {{.bytes = 0}}}},
      Form{.world = 1, .plan = {.codecs_by_size = {{.bytes = limits::kMaxCollectiveMessageBytes + 1}}}},
      Form{.world = 1, .plan = {.algorithms = {{.bytes = 0, .stage_bytes = 4096}}}},
      Form{.world = 1, .plan = {.algorithms = {{.bytes = 1, .stage_bytes = limits::kMinCollectiveStageBytes - 1}}}},
      Form{.world = 1, .plan = {.algorithms = {{.bytes = 1, .stage_bytes = limits::kMaxCollectiveStageBytes + 1}}}},
      Load{.slots = limits::kMaxSlots + 1},
      Ready{.slots = limits::kMaxSlots + 1},
      Ready{.max_rows = limits::kMaxStepRows + 1},
      Step{.admissions = {{.slot = limits::kMaxSlots}}},
      Step{.admissions = {{.slot = -1}}},
      Step{.runs = {{.in_slot = -2}}},
      Step{.runs = {{.out_slot = -1}}},
      Step{.runs = {{.sequence_slot = limits::kMaxSlots}}},
      Step{.runs = {{.position = static_cast<uint32_t>(limits::kMaxSequenceTokens) + 1}}},
      Step{.runs = {{.next_token = -2}}},
      Step{.runs = {{}}, .taps = {{.row = 1}}},
      Step{.taps = {{.row = 0}}},
      Step{.runs = {{}}, .taps = {{.row = 0, .slot = -1}}},
      StepDone{.timings = {.total_us = -1}},
      StepDone{.samples = {{.done = false, .token = {.token = -1}}}},
      StepDone{.samples = {{.done = true, .token = {.token = -2}}}},
      Failed{.rank = limits::kMaxWorld},
  };
  for (size_t i = 0; i < beyond.size(); ++i) {
    EXPECT_EQ(refused(beyond[i]).code, Errc::kProtocol)
        << "entry " << i << ", " << message_name(beyond[i]) << ": " << refused(beyond[i]).message;
  }
  EXPECT_TRUE(decode(encode(Status{.backlog_seconds = infinity})).ok());
}

TEST(Codec, LongWordsForPeopleAreCutBetweenCharacters) {
  std::string words(limits::kMaxWireTextBytes - 1, 'x');
  words += "é and more";
  const Result<Message> received = decode(encode(Leave{.epoch = 1, .reason = words}));
  ASSERT_TRUE(received.ok()) << to_string(received.error());
  EXPECT_EQ(std::get<Leave>(*received).reason, std::string(limits::kMaxWireTextBytes - 1, 'x'));
}

TEST(Codec, TheLongestPromptFits) {
  const Message sent = Submit{.tokens = std::vector<int32_t>(limits::kMaxPromptTokens, 5)};
  const Result<Message> received = decode(encode(sent));
  ASSERT_TRUE(received.ok()) << to_string(received.error());
  EXPECT_TRUE(*received == sent);
}

TEST(Codec, EveryKindHasItsName) {
  EXPECT_EQ(message_name(Message(StepDone{})), "StepDone");
  std::set<std::string_view> names;
  SplitMix64 random(1);
  for (size_t kind = 0; kind < test::kMessageKinds; ++kind) {
    names.insert(message_name(test::random_message(random, kind)));
  }
  EXPECT_EQ(names.size(), test::kMessageKinds);
}

}  // namespace
}  // namespace krait::wire
