// What the daemons say to one another, as plain structs. cluster.capnp is the same on the wire; codec.h goes between.
//
//   coordinator -> leader   Hello, Heartbeat, Submit, Cancel, Drain
//   leader -> coordinator   Status, Heartbeat, Accepted, Tokens, Finished, Rejected
//   leader -> rank          Form, Load, Step, Leave, Heartbeat
//   rank -> leader          Join, Ready, StepDone, Failed, Drain (this rank will stop), Heartbeat
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace krait::wire {

/// Raised whenever a message changes its meaning; peers of another version are refused by name.
inline constexpr uint32_t kProtocolVersion = 2;

// ---------------------------------------------------------------- sampling

struct LogitBias final {
  int32_t token = 0;
  float bias = 0;
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

/// How tokens of one sequence are chosen. Sent once, at admission; order of application is DESIGN's "Sampling order".
struct SamplingParams final {
  float temperature = 1;         // 0: greedy
  float top_p = 1;               // (0, 1]; 1: off
  float min_p = 0;               // [0, 1]; 0: off
  int32_t top_k = 0;             // 0: off
  float presence_penalty = 0;    // over the output
  float frequency_penalty = 0;   // over the output
  float repetition_penalty = 1;  // over prompt and output; 1: off
  std::vector<LogitBias> logit_bias;
  std::vector<int32_t> stop_ids;  // sorted; the model's eos (unless ignored) and the request's stop_token_ids
  uint32_t min_tokens = 0;        // stop_ids are not sampled before that many tokens were generated
  uint64_t seed = 0;              // always set; the coordinator draws it when the client gave none
  uint32_t vocab_limit = 0;       // ids from here on have no string and are never sampled; 0: every id may be
  uint32_t choice = 0;            // index among the n choices of a prompt: the second half of the noise key
  int32_t logprobs = -1;          // -1: none; else the chosen token's logprob and that many alternatives
  bool prompt_logprobs = false;   // also for every prompt token but the first
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

struct TokenLogprob final {
  int32_t token = 0;
  float logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// A token, its logprob from raw logits (0 when none were asked), and the most likely tokens at its position.
struct TokenInfo final {
  int32_t token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // by (logprob descending, id ascending)
  friend bool operator==(const TokenInfo&, const TokenInfo&) = default;
};

// ---------------------------------------------------------------- coordinator and leader

struct Hello final {
  uint32_t protocol = kProtocolVersion;
  uint64_t incarnation = 0;  // random; a coordinator with a new one has forgotten its requests
  std::string name;          // for logs
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Heartbeat final {
  uint64_t incarnation = 0;  // of the sender
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};

/// One sequence to run. A request with several prompts or choices is several of these.
struct Submit final {
  uint64_t request = 0;     // unique within the coordinator's incarnation
  std::string model;        // model key: the served name
  std::string numerics_id;  // empty: any; else refused unless equal
  std::vector<int32_t> tokens;
  uint32_t generated = 0;   // how many trailing tokens were generated before (failover); the rest is the prompt
  uint32_t max_tokens = 0;  // to generate in all, `generated` included; 0 with prompt_logprobs scores the prompt
  SamplingParams sampling;
  int64_t deadline_ms = 0;      // from receipt; 0: none
  std::vector<uint32_t> marks;  // prompt lengths whose state the client wants kept (prefix cache)
  std::string cache_hint;       // empty: default
  std::string client;           // key for fairness between clients
  friend bool operator==(const Submit&, const Submit&) = default;
};

struct Cancel final {
  uint64_t request = 0;
  uint32_t keep = 0;  // generated tokens that count: the state after them is the one worth keeping
  friend bool operator==(const Cancel&, const Cancel&) = default;
};

struct Drain final {
  friend bool operator==(const Drain&, const Drain&) = default;
};

struct Accepted final {
  uint64_t request = 0;
  std::string numerics_id;  // that the group computes with
  friend bool operator==(const Accepted&, const Accepted&) = default;
};

/// News of one sequence within a Tokens message.
struct TokenChunk final {
  uint64_t request = 0;
  uint32_t first_index = 0;  // index of tokens[0] among the generated ones; a gap means failure
  std::vector<TokenInfo> tokens;
  uint32_t first_position = 0;  // position in the prompt of prompt_logprobs[0]
  std::vector<TokenInfo> prompt_logprobs;
  friend bool operator==(const TokenChunk&, const TokenChunk&) = default;
};

/// One message for a coordinator and step.
struct Tokens final {
  uint64_t step = 0;
  std::vector<TokenChunk> chunks;
  friend bool operator==(const Tokens&, const Tokens&) = default;
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kDeadline, kError };

struct Finished final {
  uint64_t request = 0;
  FinishReason reason = FinishReason::kStop;
  uint32_t generated = 0;      // tokens generated in all: what the coordinator must have received
  uint32_t cached_tokens = 0;  // prompt tokens whose state was found
  int64_t queue_us = 0;        // receipt to first row
  int64_t prefill_us = 0;      // first row to first token
  int64_t decode_us = 0;       // first token to last
  Error error;                 // when reason is kError
  friend bool operator==(const Finished&, const Finished&) = default;
};

struct Rejected final {
  uint64_t request = 0;
  Error error;
  uint32_t retry_after_s = 0;
  friend bool operator==(const Rejected&, const Rejected&) = default;
};

enum class GroupState : uint8_t { kWaiting, kLoading, kServing, kDraining, kFailed };

struct RankStatus final {
  uint32_t rank = 0;
  int64_t pid = 0;
  bool joined = false;
  bool ready = false;
  uint32_t metrics_port = 0;
  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

/// Sent on Hello, on change, and with every heartbeat interval.
struct Status final {
  uint32_t protocol = kProtocolVersion;
  uint64_t incarnation = 0;  // of the leader
  uint64_t epoch = 0;        // of the formed group; 0 before
  GroupState state = GroupState::kWaiting;
  std::string model;        // model key
  std::string fingerprint;  // of the checkpoint
  std::string numerics_id;
  uint32_t slots = 0;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint32_t max_queue = 0;
  double tokens_per_second = 0;  // recent, prompt and generated together
  double backlog_seconds = 0;    // work admitted and waiting, by that speed
  std::string detail;            // why it is not serving
  std::vector<RankStatus> ranks;
  friend bool operator==(const Status&, const Status&) = default;
};

// ---------------------------------------------------------------- leader and ranks

struct Join final {
  uint32_t protocol = kProtocolVersion;
  uint64_t incarnation = 0;
  uint32_t rank = 0;
  uint32_t world = 0;
  std::string version;      // of the program
  std::string fingerprint;  // of the checkpoint it opened
  std::string dtype;        // weight type asked for, as weight_type_name() spells it
  std::string path;         // best instruction path (kernels::cpu_path_name)
  double speed = 1;         // relative, for uneven shares
  int64_t pid = 0;
  uint32_t metrics_port = 0;
  bool whole_weights = false;  // it holds the whole model, and its own sequences
  friend bool operator==(const Join&, const Join&) = default;
};

/// The codec of one hidden sum, by name (collectives/codecs.def).
struct SumCodec final {
  uint32_t layer = 0;
  std::string operation;  // out_proj, o_proj or down_proj
  std::string codec;
  friend bool operator==(const SumCodec&, const SumCodec&) = default;
};

/// Up to and including `bytes`, and beyond the last one: what a sum of that size does.
struct SizeCodec final {
  int64_t bytes = 0;  // of the sum as floats
  std::string codec;
  friend bool operator==(const SizeCodec&, const SizeCodec&) = default;
};
struct SumAlgorithm final {
  std::string codec;
  int64_t bytes = 0;  // of a rank's part as it travels
  bool two_shot = false;
  int64_t stage_bytes = 0;  // of a part, on the way in one step
  friend bool operator==(const SumAlgorithm&, const SumAlgorithm&) = default;
};

/// What of a group's sums is not alike for all of them. Algorithms never change bits, codecs do.
struct CollectivePlan final {
  std::vector<SumCodec> sums;             // those whose codec is not Form::codec
  std::vector<SizeCodec> codecs_by_size;  // of all hidden sums, in place of both; ascending. Gives up the contract
  std::vector<SumAlgorithm> algorithms;   // by codec, ascending; a codec without any has the defaults
  friend bool operator==(const CollectivePlan&, const CollectivePlan&) = default;
};

struct Form final {
  uint64_t epoch = 0;
  uint32_t world = 0;
  std::vector<double> shares;  // empty: equal
  std::string path;            // instruction path that every rank runs
  std::string codec;           // that hidden sums travel in, where the plan says nothing else
  std::string bootstrap;       // how the communicator finds its peers (collectives/bootstrap.h)
  CollectivePlan plan;
  friend bool operator==(const Form&, const Form&) = default;
};

struct Load final {
  uint64_t epoch = 0;
  uint32_t slots = 0;  // 0: as many as the rank's memory allows
  friend bool operator==(const Load&, const Load&) = default;
};

struct Ready final {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint32_t slots = 0;       // state slots that it holds
  uint32_t max_rows = 0;    // rows of a step that its buffers hold
  std::string numerics_id;  // all ranks must agree
  uint64_t weight_bytes = 0;
  uint64_t state_bytes = 0;  // of all slots
  uint64_t non_finite = 0;   // NaN or infinite weights met
  uint32_t kv_pages = 0;     // pages of keys and values that it holds; 0: the model has none
  friend bool operator==(const Ready&, const Ready&) = default;
};

/// What a slot is for from now on: its state is zero, its history empty, its done flag clear.
struct Admission final {
  int32_t slot = 0;
  uint32_t prompt_tokens = 0;  // positions below this are prompt; later ones are output (penalties, min_tokens)
  SamplingParams sampling;
  std::vector<int32_t> pages;  // of its keys and values, in order of position; empty where the model has none
  friend bool operator==(const Admission&, const Admission&) = default;
};

/// Consecutive tokens of one sequence within a step's flat batch.
struct StepRun final {
  int32_t in_slot = 0;           // state before the run; -1: zero
  int32_t out_slot = 0;          // state after the run; differs from in_slot only when asked
  int32_t sequence_slot = 0;     // whose sampling state, history and last token are used
  uint32_t position = 0;         // absolute position of the first row
  std::vector<int32_t> tokens;   // empty: one row, the token last sampled for sequence_slot
  bool sample = false;           // the last row's logits choose the next token
  bool prompt_logprobs = false;  // logprob of the token after each row
  int32_t next_token = -1;       // token after the last row, for prompt_logprobs; -1: none known
  uint32_t ranks = 1;  // that share its tokens, of a group whose ranks hold the whole model; alone in its step

  int64_t rows() const { return tokens.empty() ? 1 : static_cast<int64_t>(tokens.size()); }
  friend bool operator==(const StepRun&, const StepRun&) = default;
};

/// The state after `row` of the flat batch is also written to `slot`.
struct StepTap final {
  int32_t row = 0;
  int32_t slot = 0;
  friend bool operator==(const StepTap&, const StepTap&) = default;
};

struct Step final {
  uint64_t epoch = 0;
  uint64_t step = 0;        // 1, 2, ... within the epoch
  int64_t deadline_ms = 0;  // backstop of each collective
  std::vector<Admission> admissions;
  std::vector<StepRun> runs;
  std::vector<StepTap> taps;
  friend bool operator==(const Step&, const Step&) = default;
};

struct RowSample final {
  int32_t slot = 0;   // sequence_slot of the run
  bool done = false;  // the sequence had stopped before: nothing was sampled, no state was written
  TokenInfo token;
  bool failed = false;  // no logit was a finite number: nothing was sampled, and the sequence counts as stopped
  friend bool operator==(const RowSample&, const RowSample&) = default;
};

struct RowLogprobs final {
  int32_t slot = 0;
  uint32_t first_position = 0;  // position of entries[0]'s token
  std::vector<TokenInfo> entries;
  bool failed = false;  // a logprob is no finite number
  friend bool operator==(const RowLogprobs&, const RowLogprobs&) = default;
};

struct StepTimings final {
  int64_t total_us = 0;
  int64_t collective_us = 0;
  int64_t wait_us = 0;  // of that, for the latest peer
  int64_t sample_us = 0;
  friend bool operator==(const StepTimings&, const StepTimings&) = default;
};

struct StepDone final {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  uint64_t digest = 0;  // of step number, hidden rows that were sampled, and tokens
  StepTimings timings;
  std::vector<RowSample> samples;            // rank 0 only
  std::vector<RowLogprobs> prompt_logprobs;  // rank 0 only
  friend bool operator==(const StepDone&, const StepDone&) = default;
};

struct Failed final {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  Error error;
  friend bool operator==(const Failed&, const Failed&) = default;
};

struct Leave final {
  uint64_t epoch = 0;
  std::string reason;
  friend bool operator==(const Leave&, const Leave&) = default;
};

using Message = std::variant<Hello, Heartbeat, Submit, Cancel, Drain, Accepted, Tokens, Finished, Rejected, Status,
                             Join, Form, Load, Ready, Step, StepDone, Failed, Leave>;

}  // namespace krait::wire
