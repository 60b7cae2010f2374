// Cap'n Proto readers into plain structs, one overload of get() a struct, in the order of messages.h. Whatever is
// beyond a limit ends in refuse(), which decode() turns into an Error: no exception leaves this file. As in encode.cc
// the overloads are static functions of krait::wire, found by the list templates through their argument.
#include <capnp/message.h>
#include <capnp/serialize.h>

#include "common/base/limits.h"
#include "common/wire/cluster.capnp.h"
#include "common/wire/codec.h"
#include "common/wire/decode_checks.h"
#include "common/wire/decode_plan.h"

namespace krait::wire {
using namespace decoding;  // NOLINT: its functions are words of this file

static Error get_error(schema::Error::Reader from) {
  Error to;
  if (!is_errc(from.getCode())) refuse(fmt::format("error code {} is unknown", from.getCode()));
  to.code = static_cast<Errc>(from.getCode());
  to.message = words("error message", from.getMessage());
  to.param = words("error param", from.getParam());
  return to;
}

// ---------------------------------------------------------------- sampling

static void get(schema::LogitBias::Reader from, LogitBias& to) {
  to.token = token_id("logit_bias", from.getToken());
  to.bias = finite("logit_bias", from.getBias());
}

static void get(schema::SamplingParams::Reader from, SamplingParams& to) {
  to.temperature = finite("temperature", from.getTemperature());
  to.top_p = finite("top_p", from.getTopP());
  to.min_p = finite("min_p", from.getMinP());
  to.top_k = from.getTopK();
  to.presence_penalty = finite("presence_penalty", from.getPresencePenalty());
  to.frequency_penalty = finite("frequency_penalty", from.getFrequencyPenalty());
  to.repetition_penalty = positive("repetition_penalty", from.getRepetitionPenalty());
  to.min_tokens = in_range("min_tokens", from.getMinTokens(), 0, limits::kMaxSequenceTokens);
  to.seed = from.getSeed();
  to.vocab_limit = in_range("vocab_limit", from.getVocabLimit(), 0, limits::kMaxVocab);
  to.choice = from.getChoice();
  to.logprobs = in_range("logprobs", from.getLogprobs(), -1, limits::kMaxLogprobs);
  to.prompt_logprobs = from.getPromptLogprobs();
  to.logit_bias = structs<LogitBias>("logit_bias", from.getLogitBias(), limits::kMaxLogitBias);
  to.stop_ids = token_ids("stop_ids", from.getStopIds(), limits::kMaxStopIds);
}

static void get(schema::TokenLogprob::Reader from, TokenLogprob& to) {
  to.token = token_id("alternative", from.getToken());
  to.logprob = from.getLogprob();
}

/// A token of -1 passes here: only a row that was done has none, and RowSample sees to that.
static void get_token_or_none(schema::TokenInfo::Reader from, TokenInfo& to) {
  to.token = in_range("token", from.getToken(), -1, limits::kMaxVocab - 1);
  to.logprob = from.getLogprob();
  to.top = structs<TokenLogprob>("alternatives", from.getTop(), limits::kMaxLogprobs);
}

static void get(schema::TokenInfo::Reader from, TokenInfo& to) {
  get_token_or_none(from, to);
  token_id("token", to.token);
}

// ---------------------------------------------------------------- coordinator and leader

static void get(schema::Hello::Reader from, Hello& to) {
  to.protocol = from.getProtocol();
  to.incarnation = from.getIncarnation();
  to.name = name("name", from.getName());
}

static void get(schema::Heartbeat::Reader from, Heartbeat& to) {
  to.incarnation = from.getIncarnation();
}

static void get(schema::Submit::Reader from, Submit& to) {
  to.request = from.getRequest();
  to.model = name("model", from.getModel());
  to.numerics_id = name("numerics_id", from.getNumericsId());
  to.tokens = token_ids("tokens", from.getTokens(), limits::kMaxPromptTokens);
  to.generated = in_range("generated", from.getGenerated(), 0, static_cast<int64_t>(to.tokens.size()));
  to.max_tokens = position("max_tokens", from.getMaxTokens());
  get(from.getSampling(), to.sampling);
  to.deadline_ms = in_range("deadline_ms", from.getDeadlineMs(), 0, limits::kMaxDeadlineMs);
  to.marks = numbers<uint32_t>("marks", from.getMarks(), limits::kMaxMarks);
  to.cache_hint = name("cache_hint", from.getCacheHint());
  to.client = name("client", from.getClient());
}

static void get(schema::Cancel::Reader from, Cancel& to) {
  to.request = from.getRequest();
  to.keep = from.getKeep();
}

static void get(schema::Drain::Reader, Drain&) {}

static void get(schema::Accepted::Reader from, Accepted& to) {
  to.request = from.getRequest();
  to.numerics_id = name("numerics_id", from.getNumericsId());
}

static void get(schema::TokenChunk::Reader from, TokenChunk& to) {
  to.request = from.getRequest();
  to.first_index = position("first_index", from.getFirstIndex());
  to.tokens = structs<TokenInfo>("tokens", from.getTokens(), limits::kMaxStepRows);
  to.first_position = position("first_position", from.getFirstPosition());
  to.prompt_logprobs = structs<TokenInfo>("prompt_logprobs", from.getPromptLogprobs(), limits::kMaxEchoLogprobTokens);
}

static void get(schema::Tokens::Reader from, Tokens& to) {
  to.step = from.getStep();
  to.chunks = structs<TokenChunk>("chunks", from.getChunks(), limits::kMaxSlots);
}

static void get(schema::Finished::Reader from, Finished& to) {
  to.request = from.getRequest();
  to.reason = static_cast<FinishReason>(
      in_range("finish reason", static_cast<uint16_t>(from.getReason()), 0, static_cast<int>(FinishReason::kError)));
  to.generated = position("generated", from.getGenerated());
  to.cached_tokens = position("cached_tokens", from.getCachedTokens());
  to.queue_us = not_negative("queue_us", from.getQueueUs());
  to.prefill_us = not_negative("prefill_us", from.getPrefillUs());
  to.decode_us = not_negative("decode_us", from.getDecodeUs());
  to.error = get_error(from.getError());
}

static void get(schema::Rejected::Reader from, Rejected& to) {
  to.request = from.getRequest();
  to.error = get_error(from.getError());
  to.retry_after_s = from.getRetryAfterS();
}

static void get(schema::RankStatus::Reader from, RankStatus& to) {
  to.rank = rank_id(from.getRank());
  to.pid = from.getPid();
  to.joined = from.getJoined();
  to.ready = from.getReady();
  to.metrics_port = port(from.getMetricsPort());
}

static void get(schema::Status::Reader from, Status& to) {
  to.protocol = from.getProtocol();
  to.incarnation = from.getIncarnation();
  to.epoch = from.getEpoch();
  to.state = static_cast<GroupState>(
      in_range("group state", static_cast<uint16_t>(from.getState()), 0, static_cast<int>(GroupState::kFailed)));
  to.model = name("model", from.getModel());
  to.fingerprint = name("fingerprint", from.getFingerprint());
  to.numerics_id = name("numerics_id", from.getNumericsId());
  to.slots = slot_count("slots", from.getSlots());
  to.running = from.getRunning();
  to.waiting = from.getWaiting();
  to.max_queue = from.getMaxQueue();
  // Infinite is a speed of nothing and a fair answer; a NaN would make every comparison of groups false.
  to.tokens_per_second = from.getTokensPerSecond();
  to.backlog_seconds = from.getBacklogSeconds();
  if (!(to.tokens_per_second >= 0)) refuse("tokens_per_second is negative or no number");
  if (!(to.backlog_seconds >= 0)) refuse("backlog_seconds is negative or no number");
  to.detail = words("detail", from.getDetail());
  to.ranks = structs<RankStatus>("ranks", from.getRanks(), limits::kMaxWorld);
}

// ---------------------------------------------------------------- leader and ranks

static void get(schema::Join::Reader from, Join& to) {
  to.protocol = from.getProtocol();
  to.incarnation = from.getIncarnation();
  to.rank = rank_id(from.getRank());
  to.world = world_size(from.getWorld());
  to.version = name("version", from.getVersion());
  to.fingerprint = name("fingerprint", from.getFingerprint());
  to.dtype = name("dtype", from.getDtype());
  to.path = name("path", from.getPath());
  to.speed = finite("speed", from.getSpeed());
  to.pid = from.getPid();
  to.metrics_port = port(from.getMetricsPort());
  to.whole_weights = from.getWholeWeights();
}

static void get(schema::Form::Reader from, Form& to) {
  to.epoch = from.getEpoch();
  to.world = world_size(from.getWorld());
  to.shares = numbers<double>("shares", from.getShares(), to.world);
  for (const double share : to.shares)
    finite("shares", share);
  to.path = name("path", from.getPath());
  to.codec = name("codec", from.getCodec());
  to.bootstrap = name("bootstrap", from.getBootstrap());
  get(from.getPlan(), to.plan);
}

static void get(schema::Load::Reader from, Load& to) {
  to.epoch = from.getEpoch();
  to.slots = slot_count("slots", from.getSlots());
}

static void get(schema::Ready::Reader from, Ready& to) {
  to.epoch = from.getEpoch();
  to.rank = rank_id(from.getRank());
  to.slots = slot_count("slots", from.getSlots());
  to.max_rows = in_range("max_rows", from.getMaxRows(), 0, limits::kMaxStepRows);
  to.kv_pages = in_range("kv_pages", from.getKvPages(), 0, limits::kMaxKvPages);
  to.numerics_id = name("numerics_id", from.getNumericsId());
  to.weight_bytes = from.getWeightBytes();
  to.state_bytes = from.getStateBytes();
  to.non_finite = from.getNonFinite();
}

static void get(schema::Admission::Reader from, Admission& to) {
  to.slot = slot_id("slot", from.getSlot());
  to.prompt_tokens = in_range("prompt_tokens", from.getPromptTokens(), 0, limits::kMaxPromptTokens);
  get(from.getSampling(), to.sampling);
  to.pages = page_ids("pages", from.getPages());
}

static void get(schema::StepRun::Reader from, StepRun& to) {
  to.in_slot = in_range("in_slot", from.getInSlot(), -1, limits::kMaxSlots - 1);
  to.out_slot = slot_id("out_slot", from.getOutSlot());
  to.sequence_slot = slot_id("sequence_slot", from.getSequenceSlot());
  to.position = position("position", from.getPosition());
  to.ranks = in_range("ranks", from.getRanks(), 1, limits::kMaxWorld);
  to.tokens =
      token_ids("tokens", from.getTokens(), to.ranks > 1 ? to.ranks * limits::kSharedPromptRows : limits::kMaxStepRows);
  to.sample = from.getSample();
  to.prompt_logprobs = from.getPromptLogprobs();
  to.next_token = in_range("next_token", from.getNextToken(), -1, limits::kMaxVocab - 1);
}

static void get(schema::StepTap::Reader from, StepTap& to) {
  to.row = in_range("tap row", from.getRow(), 0, limits::kMaxStepRows - 1);
  to.slot = slot_id("tap slot", from.getSlot());
}

static void get(schema::Step::Reader from, Step& to) {
  to.epoch = from.getEpoch();
  to.step = from.getStep();
  to.deadline_ms = in_range("deadline_ms", from.getDeadlineMs(), 0, limits::kMaxDeadlineMs);
  to.admissions = structs<Admission>("admissions", from.getAdmissions(), limits::kMaxSlots);
  to.runs = structs<StepRun>("runs", from.getRuns(), limits::kMaxStepRows);
  to.taps = structs<StepTap>("taps", from.getTaps(), limits::kMaxSlots);
  int64_t rows = 0;
  for (const StepRun& run : to.runs)
    rows += run.rows();
  const bool shared = to.runs.size() == 1 && to.runs[0].ranks > 1;
  in_range("rows", rows, 0, shared ? limits::kMaxWorld * limits::kSharedPromptRows : limits::kMaxStepRows);
  for (const StepTap& tap : to.taps)
    in_range("tap row", tap.row, 0, rows - 1);
}

static void get(schema::RowSample::Reader from, RowSample& to) {
  to.slot = slot_id("slot", from.getSlot());
  to.done = from.getDone();
  get_token_or_none(from.getToken(), to.token);
  if (!to.done) token_id("token", to.token.token);
  to.failed = from.getFailed();
}

static void get(schema::RowLogprobs::Reader from, RowLogprobs& to) {
  to.slot = slot_id("slot", from.getSlot());
  to.first_position = position("first_position", from.getFirstPosition());
  to.entries = structs<TokenInfo>("entries", from.getEntries(), limits::kMaxStepRows);
  to.failed = from.getFailed();
}

static void get(schema::StepTimings::Reader from, StepTimings& to) {
  to.total_us = not_negative("total_us", from.getTotalUs());
  to.collective_us = not_negative("collective_us", from.getCollectiveUs());
  to.wait_us = not_negative("wait_us", from.getWaitUs());
  to.sample_us = not_negative("sample_us", from.getSampleUs());
}

static void get(schema::StepDone::Reader from, StepDone& to) {
  to.epoch = from.getEpoch();
  to.step = from.getStep();
  to.rank = rank_id(from.getRank());
  to.digest = from.getDigest();
  get(from.getTimings(), to.timings);
  to.samples = structs<RowSample>("samples", from.getSamples(), limits::kMaxStepRows);
  to.prompt_logprobs = structs<RowLogprobs>("prompt_logprobs", from.getPromptLogprobs(), limits::kMaxStepRows);
}

static void get(schema::Failed::Reader from, Failed& to) {
  to.epoch = from.getEpoch();
  to.rank = rank_id(from.getRank());
  to.error = get_error(from.getError());
}

static void get(schema::Leave::Reader from, Leave& to) {
  to.epoch = from.getEpoch();
  to.reason = words("reason", from.getReason());
}

static Message get_message(schema::Envelope::Reader envelope) {
  if (envelope.getProtocol() != kProtocolVersion) {
    refuse(fmt::format("the peer speaks protocol version {}, this program version {}", envelope.getProtocol(),
                       kProtocolVersion));
  }
  switch (envelope.which()) {
#define ARM(KIND, Struct)                 \
  case schema::Envelope::KIND: {          \
    Struct message;                       \
    get(envelope.get##Struct(), message); \
    return message;                       \
  }
    ARM(HELLO, Hello)
    ARM(HEARTBEAT, Heartbeat)
    ARM(SUBMIT, Submit)
    ARM(CANCEL, Cancel)
    ARM(DRAIN, Drain)
    ARM(ACCEPTED, Accepted)
    ARM(TOKENS, Tokens)
    ARM(FINISHED, Finished)
    ARM(REJECTED, Rejected)
    ARM(STATUS, Status)
    ARM(JOIN, Join)
    ARM(FORM, Form)
    ARM(LOAD, Load)
    ARM(READY, Ready)
    ARM(STEP, Step)
    ARM(STEP_DONE, StepDone)
    ARM(FAILED, Failed)
    ARM(LEAVE, Leave)
#undef ARM
  }
  refuse(fmt::format("message kind {} is unknown", static_cast<uint16_t>(envelope.which())));
}

Result<Message> decode(std::span<const std::byte> bytes) {
  if (std::cmp_greater(bytes.size(), limits::kMaxWireMessageBytes)) {
    return Error{Errc::kProtocol,
                 fmt::format("a message of {} bytes, more than {}", bytes.size(), limits::kMaxWireMessageBytes)};
  }
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return Error{Errc::kCorrupt, fmt::format("a message of {} bytes is not made of whole words", bytes.size())};
  }
  try {
    // A receive buffer may start anywhere; Cap'n Proto reads words in place and needs them aligned.
    kj::Array<capnp::word> words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    std::memcpy(words.begin(), bytes.data(), bytes.size());

    capnp::ReaderOptions options;
    // Every object is read once, so an honest message needs no more than its own size. Pointers that share an object
    // are how a small message asks for much memory; they end here.
    options.traversalLimitInWords = words.size();
    options.nestingLimit = limits::kMaxWireDepth;
    capnp::FlatArrayMessageReader reader(words, options);
    if (reader.getEnd() != words.end()) return Error{Errc::kCorrupt, "a message with something after its end"};
    return get_message(reader.getRoot<schema::Envelope>());
  } catch (const Refusal& refusal) {
    return Error{Errc::kProtocol, refusal.reason};
  } catch (const kj::Exception& exception) {
    return Error{Errc::kCorrupt, fmt::format("a damaged message: {}", exception.getDescription().cStr())};
  }
}

namespace {

struct MessageName final {
#define NAME(Struct)                                 \
  std::string_view operator()(const Struct&) const { \
    return #Struct;                                  \
  }
  NAME(Hello)
  NAME(Heartbeat)
  NAME(Submit)
  NAME(Cancel)
  NAME(Drain)
  NAME(Accepted)
  NAME(Tokens)
  NAME(Finished)
  NAME(Rejected)
  NAME(Status)
  NAME(Join)
  NAME(Form)
  NAME(Load)
  NAME(Ready)
  NAME(Step)
  NAME(StepDone)
  NAME(Failed)
  NAME(Leave)
#undef NAME
};

}  // namespace

std::string_view message_name(const Message& message) {
  return std::visit(MessageName{}, message);
}

}  // namespace krait::wire
