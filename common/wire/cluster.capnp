@0x8e5dea12958d2dcb;
# The contract between daemons: messages.h has the same structs with the meaning of each field.
#
# Rules of change: a new optional field gets the next number; what changes a meaning raises kProtocolVersion in messages.h.
# Envelope.protocol keeps its place for ever, so that any two versions can refuse each other by name.
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("krait::wire::schema");

struct Envelope {
  protocol @0 :UInt32;
  union {
    hello @1 :Hello;
    heartbeat @2 :Heartbeat;
    submit @3 :Submit;
    cancel @4 :Cancel;
    drain @5 :Drain;
    accepted @6 :Accepted;
    tokens @7 :Tokens;
    finished @8 :Finished;
    rejected @9 :Rejected;
    status @10 :Status;
    join @11 :Join;
    form @12 :Form;
    load @13 :Load;
    ready @14 :Ready;
    step @15 :Step;
    stepDone @16 :StepDone;
    failed @17 :Failed;
    leave @18 :Leave;
  }
}

struct Error {
  code @0 :UInt8;  # the row of common/base/errors.def
  message @1 :Text;
  param @2 :Text;
}

# ---------------------------------------------------------------- sampling

struct LogitBias {
  token @0 :Int32;
  bias @1 :Float32;
}

struct SamplingParams {
  temperature @0 :Float32;
  topP @1 :Float32;
  minP @2 :Float32;
  topK @3 :Int32;
  presencePenalty @4 :Float32;
  frequencyPenalty @5 :Float32;
  repetitionPenalty @6 :Float32;
  minTokens @7 :UInt32;
  seed @8 :UInt64;
  choice @9 :UInt32;
  logprobs @10 :Int32;
  promptLogprobs @11 :Bool;
  logitBias @12 :List(LogitBias);
  stopIds @13 :List(Int32);
  vocabLimit @14 :UInt32;
}

struct TokenLogprob {
  token @0 :Int32;
  logprob @1 :Float32;
}

struct TokenInfo {
  token @0 :Int32;
  logprob @1 :Float32;
  top @2 :List(TokenLogprob);
}

# ---------------------------------------------------------------- coordinator and leader

struct Hello {
  protocol @0 :UInt32;
  incarnation @1 :UInt64;
  name @2 :Text;
}

struct Heartbeat {
  incarnation @0 :UInt64;
}

struct Submit {
  request @0 :UInt64;
  model @1 :Text;
  numericsId @2 :Text;
  tokens @3 :List(Int32);
  generated @4 :UInt32;
  maxTokens @5 :UInt32;
  sampling @6 :SamplingParams;
  deadlineMs @7 :Int64;
  marks @8 :List(UInt32);
  cacheHint @9 :Text;
  client @10 :Text;
}

struct Cancel {
  request @0 :UInt64;
  keep @1 :UInt32;
}

struct Drain {
}

struct Accepted {
  request @0 :UInt64;
  numericsId @1 :Text;
}

struct TokenChunk {
  request @0 :UInt64;
  firstIndex @1 :UInt32;
  tokens @2 :List(TokenInfo);
  firstPosition @3 :UInt32;
  promptLogprobs @4 :List(TokenInfo);
}

struct Tokens {
  step @0 :UInt64;
  chunks @1 :List(TokenChunk);
}

enum FinishReason {
  stop @0;
  length @1;
  cancelled @2;
  deadline @3;
  error @4;
}

struct Finished {
  request @0 :UInt64;
  reason @1 :FinishReason;
  generated @2 :UInt32;
  cachedTokens @3 :UInt32;
  queueUs @4 :Int64;
  prefillUs @5 :Int64;
  decodeUs @6 :Int64;
  error @7 :Error;
}

struct Rejected {
  request @0 :UInt64;
  error @1 :Error;
  retryAfterS @2 :UInt32;
}

enum GroupState {
  waiting @0;
  loading @1;
  serving @2;
  draining @3;
  failed @4;
}

struct RankStatus {
  rank @0 :UInt32;
  pid @1 :Int64;
  joined @2 :Bool;
  ready @3 :Bool;
  metricsPort @4 :UInt32;
}

struct Status {
  protocol @0 :UInt32;
  incarnation @1 :UInt64;
  epoch @2 :UInt64;
  state @3 :GroupState;
  model @4 :Text;
  fingerprint @5 :Text;
  numericsId @6 :Text;
  slots @7 :UInt32;
  running @8 :UInt32;
  waiting @9 :UInt32;
  maxQueue @10 :UInt32;
  tokensPerSecond @11 :Float64;
  backlogSeconds @12 :Float64;
  detail @13 :Text;
  ranks @14 :List(RankStatus);
}

# ---------------------------------------------------------------- leader and ranks

struct Join {
  protocol @0 :UInt32;
  incarnation @1 :UInt64;
  rank @2 :UInt32;
  world @3 :UInt32;
  version @4 :Text;
  fingerprint @5 :Text;
  dtype @6 :Text;
  path @7 :Text;
  speed @8 :Float64;
  pid @9 :Int64;
  metricsPort @10 :UInt32;
  wholeWeights @11 :Bool;
}

struct SumCodec {
  layer @0 :UInt32;
  operation @1 :Text;
  codec @2 :Text;
}

struct SizeCodec {
  bytes @0 :Int64;
  codec @1 :Text;
}

struct SumAlgorithm {
  codec @0 :Text;
  bytes @1 :Int64;
  twoShot @2 :Bool;
  stageBytes @3 :Int64;
}

struct CollectivePlan {
  sums @0 :List(SumCodec);
  codecsBySize @1 :List(SizeCodec);
  algorithms @2 :List(SumAlgorithm);
}

struct Form {
  epoch @0 :UInt64;
  world @1 :UInt32;
  shares @2 :List(Float64);
  path @3 :Text;
  bootstrap @4 :Text;
  codec @5 :Text;
  plan @6 :CollectivePlan;
}

struct Load {
  epoch @0 :UInt64;
  slots @1 :UInt32;
}

struct Ready {
  epoch @0 :UInt64;
  rank @1 :UInt32;
  slots @2 :UInt32;
  numericsId @3 :Text;
  weightBytes @4 :UInt64;
  stateBytes @5 :UInt64;
  nonFinite @6 :UInt64;
  maxRows @7 :UInt32;
  kvPages @8 :UInt32;
}

struct Admission {
  slot @0 :Int32;
  promptTokens @1 :UInt32;
  sampling @2 :SamplingParams;
  pages @3 :List(Int32);
}

struct StepRun {
  inSlot @0 :Int32;
  outSlot @1 :Int32;
  sequenceSlot @2 :Int32;
  position @3 :UInt32;
  tokens @4 :List(Int32);
  sample @5 :Bool;
  promptLogprobs @6 :Bool;
  nextToken @7 :Int32;
  ranks @8 :UInt32 = 1;
}

struct StepTap {
  row @0 :Int32;
  slot @1 :Int32;
}

struct Step {
  epoch @0 :UInt64;
  step @1 :UInt64;
  deadlineMs @2 :Int64;
  admissions @3 :List(Admission);
  runs @4 :List(StepRun);
  taps @5 :List(StepTap);
}

struct RowSample {
  slot @0 :Int32;
  done @1 :Bool;
  token @2 :TokenInfo;
  failed @3 :Bool;
}

struct RowLogprobs {
  slot @0 :Int32;
  firstPosition @1 :UInt32;
  entries @2 :List(TokenInfo);
  failed @3 :Bool;
}

struct StepTimings {
  totalUs @0 :Int64;
  collectiveUs @1 :Int64;
  waitUs @2 :Int64;
  sampleUs @3 :Int64;
}

struct StepDone {
  epoch @0 :UInt64;
  step @1 :UInt64;
  rank @2 :UInt32;
  digest @3 :UInt64;
  timings @4 :StepTimings;
  samples @5 :List(RowSample);
  promptLogprobs @6 :List(RowLogprobs);
}

struct Failed {
  epoch @0 :UInt64;
  rank @1 :UInt32;
  error @2 :Error;
}

struct Leave {
  epoch @0 :UInt64;
  reason @1 :Text;
}
