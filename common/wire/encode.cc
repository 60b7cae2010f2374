// Plain structs into Cap'n Proto builders, one overload of put() a struct, in the order of messages.h. The overloads
// are static functions of krait::wire, not of an unnamed namespace, because the list templates find them by their
// argument.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/io.h>

#include "common/base/limits.h"
#include "common/wire/cluster.capnp.h"
#include "common/wire/codec.h"

namespace krait::wire {

static capnp::Text::Reader text(const std::string& value) {
  return {value.c_str(), value.size()};
}

/// Words for people: cut at the limit, so that a long one never costs the message; never in the middle of a character.
static std::string cut_words(const std::string& words) {
  size_t size = std::min(words.size(), static_cast<size_t>(limits::kMaxWireTextBytes));
  while (size > 0 && size < words.size() && (static_cast<uint8_t>(words[size]) & 0xC0) == 0x80)
    --size;
  return words.substr(0, size);
}

template <class List, class T>
static void put_numbers(List list, const std::vector<T>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    list.set(static_cast<uint32_t>(i), values[i]);
}

template <class List, class T>
static void put_structs(List list, const std::vector<T>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    put(list[static_cast<uint32_t>(i)], values[i]);
}

template <class T>
static uint32_t count(const std::vector<T>& values) {
  return static_cast<uint32_t>(values.size());
}

static void put(schema::Error::Builder to, const Error& from) {
  to.setCode(static_cast<uint8_t>(from.code));
  to.setMessage(text(cut_words(from.message)));
  to.setParam(text(cut_words(from.param)));
}

// ---------------------------------------------------------------- sampling

static void put(schema::LogitBias::Builder to, const LogitBias& from) {
  to.setToken(from.token);
  to.setBias(from.bias);
}

static void put(schema::SamplingParams::Builder to, const SamplingParams& from) {
  to.setTemperature(from.temperature);
  to.setTopP(from.top_p);
  to.setMinP(from.min_p);
  to.setTopK(from.top_k);
  to.setPresencePenalty(from.presence_penalty);
  to.setFrequencyPenalty(from.frequency_penalty);
  to.setRepetitionPenalty(from.repetition_penalty);
  to.setMinTokens(from.min_tokens);
  to.setSeed(from.seed);
  to.setVocabLimit(from.vocab_limit);
  to.setChoice(from.choice);
  to.setLogprobs(from.logprobs);
  to.setPromptLogprobs(from.prompt_logprobs);
  put_structs(to.initLogitBias(count(from.logit_bias)), from.logit_bias);
  put_numbers(to.initStopIds(count(from.stop_ids)), from.stop_ids);
}

static void put(schema::TokenLogprob::Builder to, const TokenLogprob& from) {
  to.setToken(from.token);
  to.setLogprob(from.logprob);
}

static void put(schema::TokenInfo::Builder to, const TokenInfo& from) {
  to.setToken(from.token);
  to.setLogprob(from.logprob);
  if (!from.top.empty()) put_structs(to.initTop(count(from.top)), from.top);
}

// ---------------------------------------------------------------- coordinator and leader

static void put(schema::Hello::Builder to, const Hello& from) {
  to.setProtocol(from.protocol);
  to.setIncarnation(from.incarnation);
  to.setName(text(from.name));
}

static void put(schema::Heartbeat::Builder to, const Heartbeat& from) {
  to.setIncarnation(from.incarnation);
}

static void put(schema::Submit::Builder to, const Submit& from) {
  to.setRequest(from.request);
  to.setModel(text(from.model));
  to.setNumericsId(text(from.numerics_id));
  put_numbers(to.initTokens(count(from.tokens)), from.tokens);
  to.setGenerated(from.generated);
  to.setMaxTokens(from.max_tokens);
  put(to.initSampling(), from.sampling);
  to.setDeadlineMs(from.deadline_ms);
  put_numbers(to.initMarks(count(from.marks)), from.marks);
  to.setCacheHint(text(from.cache_hint));
  to.setClient(text(from.client));
}

static void put(schema::Cancel::Builder to, const Cancel& from) {
  to.setRequest(from.request);
  to.setKeep(from.keep);
}

static void put(schema::Drain::Builder, const Drain&) {}

static void put(schema::Accepted::Builder to, const Accepted& from) {
  to.setRequest(from.request);
  to.setNumericsId(text(from.numerics_id));
}

static void put(schema::TokenChunk::Builder to, const TokenChunk& from) {
  to.setRequest(from.request);
  to.setFirstIndex(from.first_index);
  put_structs(to.initTokens(count(from.tokens)), from.tokens);
  to.setFirstPosition(from.first_position);
  put_structs(to.initPromptLogprobs(count(from.prompt_logprobs)), from.prompt_logprobs);
}

static void put(schema::Tokens::Builder to, const Tokens& from) {
  to.setStep(from.step);
  put_structs(to.initChunks(count(from.chunks)), from.chunks);
}

static void put(schema::Finished::Builder to, const Finished& from) {
  to.setRequest(from.request);
  to.setReason(static_cast<schema::FinishReason>(from.reason));
  to.setGenerated(from.generated);
  to.setCachedTokens(from.cached_tokens);
  to.setQueueUs(from.queue_us);
  to.setPrefillUs(from.prefill_us);
  to.setDecodeUs(from.decode_us);
  put(to.initError(), from.error);
}

static void put(schema::Rejected::Builder to, const Rejected& from) {
  to.setRequest(from.request);
  put(to.initError(), from.error);
  to.setRetryAfterS(from.retry_after_s);
}

static void put(schema::RankStatus::Builder to, const RankStatus& from) {
  to.setRank(from.rank);
  to.setPid(from.pid);
  to.setJoined(from.joined);
  to.setReady(from.ready);
  to.setMetricsPort(from.metrics_port);
}

static void put(schema::Status::Builder to, const Status& from) {
  to.setProtocol(from.protocol);
  to.setIncarnation(from.incarnation);
  to.setEpoch(from.epoch);
  to.setState(static_cast<schema::GroupState>(from.state));
  to.setModel(text(from.model));
  to.setFingerprint(text(from.fingerprint));
  to.setNumericsId(text(from.numerics_id));
  to.setSlots(from.slots);
  to.setRunning(from.running);
  to.setWaiting(from.waiting);
  to.setMaxQueue(from.max_queue);
  to.setTokensPerSecond(from.tokens_per_second);
  to.setBacklogSeconds(from.backlog_seconds);
  to.setDetail(text(cut_words(from.detail)));
  put_structs(to.initRanks(count(from.ranks)), from.ranks);
}

// ---------------------------------------------------------------- leader and ranks

static void put(schema::Join::Builder to, const Join& from) {
  to.setProtocol(from.protocol);
  to.setIncarnation(from.incarnation);
  to.setRank(from.rank);
  to.setWorld(from.world);
  to.setVersion(text(from.version));
  to.setFingerprint(text(from.fingerprint));
  to.setDtype(text(from.dtype));
  to.setPath(text(from.path));
  to.setSpeed(from.speed);
  to.setPid(from.pid);
  to.setMetricsPort(from.metrics_port);
  to.setWholeWeights(from.whole_weights);
}

static void put(schema::SumCodec::Builder to, const SumCodec& from) {
  to.setLayer(from.layer);
  to.setOperation(text(from.operation));
  to.setCodec(text(from.codec));
}

static void put(schema::SizeCodec::Builder to, const SizeCodec& from) {
  to.setBytes(from.bytes);
  to.setCodec(text(from.codec));
}

static void put(schema::SumAlgorithm::Builder to, const SumAlgorithm& from) {
  to.setCodec(text(from.codec));
  to.setBytes(from.bytes);
  to.setTwoShot(from.two_shot);
  to.setStageBytes(from.stage_bytes);
}

static void put(schema::CollectivePlan::Builder to, const CollectivePlan& from) {
  put_structs(to.initSums(count(from.sums)), from.sums);
  put_structs(to.initCodecsBySize(count(from.codecs_by_size)), from.codecs_by_size);
  put_structs(to.initAlgorithms(count(from.algorithms)), from.algorithms);
}

static void put(schema::Form::Builder to, const Form& from) {
  to.setEpoch(from.epoch);
  to.setWorld(from.world);
  put_numbers(to.initShares(count(from.shares)), from.shares);
  to.setPath(text(from.path));
  to.setCodec(text(from.codec));
  to.setBootstrap(text(from.bootstrap));
  put(to.initPlan(), from.plan);
}

static void put(schema::Load::Builder to, const Load& from) {
  to.setEpoch(from.epoch);
  to.setSlots(from.slots);
}

static void put(schema::Ready::Builder to, const Ready& from) {
  to.setEpoch(from.epoch);
  to.setRank(from.rank);
  to.setSlots(from.slots);
  to.setMaxRows(from.max_rows);
  to.setNumericsId(text(from.numerics_id));
  to.setWeightBytes(from.weight_bytes);
  to.setStateBytes(from.state_bytes);
  to.setNonFinite(from.non_finite);
  to.setKvPages(from.kv_pages);
}

static void put(schema::Admission::Builder to, const Admission& from) {
  to.setSlot(from.slot);
  to.setPromptTokens(from.prompt_tokens);
  put(to.initSampling(), from.sampling);
  if (!from.pages.empty()) put_numbers(to.initPages(count(from.pages)), from.pages);
}

static void put(schema::StepRun::Builder to, const StepRun& from) {
  to.setInSlot(from.in_slot);
  to.setOutSlot(from.out_slot);
  to.setSequenceSlot(from.sequence_slot);
  to.setPosition(from.position);
  if (!from.tokens.empty()) put_numbers(to.initTokens(count(from.tokens)), from.tokens);
  to.setSample(from.sample);
  to.setPromptLogprobs(from.prompt_logprobs);
  to.setNextToken(from.next_token);
  to.setRanks(from.ranks);
}

static void put(schema::StepTap::Builder to, const StepTap& from) {
  to.setRow(from.row);
  to.setSlot(from.slot);
}

static void put(schema::Step::Builder to, const Step& from) {
  to.setEpoch(from.epoch);
  to.setStep(from.step);
  to.setDeadlineMs(from.deadline_ms);
  put_structs(to.initAdmissions(count(from.admissions)), from.admissions);
  put_structs(to.initRuns(count(from.runs)), from.runs);
  put_structs(to.initTaps(count(from.taps)), from.taps);
}

static void put(schema::RowSample::Builder to, const RowSample& from) {
  to.setSlot(from.slot);
  to.setDone(from.done);
  put(to.initToken(), from.token);
  to.setFailed(from.failed);
}

static void put(schema::RowLogprobs::Builder to, const RowLogprobs& from) {
  to.setSlot(from.slot);
  to.setFirstPosition(from.first_position);
  put_structs(to.initEntries(count(from.entries)), from.entries);
  to.setFailed(from.failed);
}

static void put(schema::StepTimings::Builder to, const StepTimings& from) {
  to.setTotalUs(from.total_us);
  to.setCollectiveUs(from.collective_us);
  to.setWaitUs(from.wait_us);
  to.setSampleUs(from.sample_us);
}

static void put(schema::StepDone::Builder to, const StepDone& from) {
  to.setEpoch(from.epoch);
  to.setStep(from.step);
  to.setRank(from.rank);
  to.setDigest(from.digest);
  put(to.initTimings(), from.timings);
  put_structs(to.initSamples(count(from.samples)), from.samples);
  put_structs(to.initPromptLogprobs(count(from.prompt_logprobs)), from.prompt_logprobs);
}

static void put(schema::Failed::Builder to, const Failed& from) {
  to.setEpoch(from.epoch);
  to.setRank(from.rank);
  put(to.initError(), from.error);
}

static void put(schema::Leave::Builder to, const Leave& from) {
  to.setEpoch(from.epoch);
  to.setReason(text(cut_words(from.reason)));
}

namespace {

/// The struct decides the arm of the envelope's union.
struct PutMessage final {
  schema::Envelope::Builder to;

#define ARM(Struct)                                          \
  void operator()(const Struct& from) const {                \
    put(schema::Envelope::Builder(to).init##Struct(), from); \
  }
  ARM(Hello)
  ARM(Heartbeat)
  ARM(Submit)
  ARM(Cancel)
  ARM(Drain)
  ARM(Accepted)
  ARM(Tokens)
  ARM(Finished)
  ARM(Rejected)
  ARM(Status)
  ARM(Join)
  ARM(Form)
  ARM(Load)
  ARM(Ready)
  ARM(Step)
  ARM(StepDone)
  ARM(Failed)
  ARM(Leave)
#undef ARM
};

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  try {
    capnp::MallocMessageBuilder builder;
    schema::Envelope::Builder envelope = builder.initRoot<schema::Envelope>();
    envelope.setProtocol(kProtocolVersion);
    std::visit(PutMessage{envelope}, message);

    std::vector<std::byte> bytes(capnp::computeSerializedSizeInWords(builder) * sizeof(capnp::word));
    kj::ArrayOutputStream out(kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.data()), bytes.size()));
    capnp::writeMessage(out, builder);
    return bytes;
  } catch (const kj::Exception& exception) {
    // Only a list of half a billion elements gets here, and our own queues end long before.
    check_failed(__FILE__, __LINE__, "encode(message)", exception.getDescription().cStr());
  }
}

}  // namespace krait::wire
