// The heart of the coordinator: which group runs a request, what its tokens say, how it ends. A machine without threads
// or sockets: calls and messages go in, messages and calls of sinks come out; the same input gives the same output.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/wire/messages.h"
#include "coordinator/requests/generation.h"
#include "coordinator/requests/sequence_output.h"
#include "coordinator/tokenizer/tokenizer.h"

namespace krait::requests {

using RequestId = uint64_t;

struct CoreOptions final {
  std::string name;                                       // of this coordinator, for the groups' logs
  uint64_t incarnation = 0;                               // random
  std::vector<std::string> groups;                        // names
  std::vector<std::string> addresses;                     // of their leaders, one a group
  std::string model;                                      // served name that groups must have; empty: any
  std::string fingerprint;                                // of the checkpoint that groups must hold; empty: any
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;  // null: tokens have no text
  int64_t default_timeout_ms = 600'000;
  int64_t max_open_sequences = limits::kMaxOpenSequences;  // of all requests; more are refused
  int64_t max_open_tokens = limits::kMaxOpenTokens;        // of their prompts, and what else they hold in such
};

/// Sequences that a group was asked for and that have ended, for metrics: what the coordinator saw and what the group
/// reported. A sequence that was refused never began, and is none of them.
struct SequenceReport final {
  wire::FinishReason reason = wire::FinishReason::kStop;
  uint32_t prompt_tokens = 0;
  uint32_t generated = 0;
  bool timed = false;  // the group told what follows
  int64_t queue_us = 0;
  int64_t prefill_us = 0;
  int64_t decode_us = 0;
};

/// Called as things happen, on the core's thread; any may be empty.
struct CoreObserver final {
  std::function<void(int64_t ns)> on_first_token;  // submit to first token
  std::function<void(int64_t ns)> on_inter_token;  // between messages with tokens, by their tokens
  std::function<void(int64_t ns)> on_request_end;  // submit to last sequence's end
  std::function<void(const SequenceReport&)> on_sequence_end;
  std::function<void()> on_bad_message;  // of a group, that could not be read
};

struct GroupMessage final {
  size_t group = 0;
  wire::Message message;
};

class RequestCore final {
 public:
  RequestCore(CoreOptions options, const Clock& clock, CoreObserver observer = {});

  void submit(RequestId id, GenerationSpec spec, std::shared_ptr<GenerationSink> sink);
  void cancel(RequestId id) { abandon(id, wire::FinishReason::kCancelled); }
  void from_group(size_t group, wire::Message message);
  /// A message to the group could not be sent: its queue is full or nobody is there.
  void send_failed(size_t group, const wire::Message& message);
  /// Heartbeats, timeouts, lost groups. Call at least every limits::kHeartbeatNs.
  void tick();
  /// Ends every open request with `error`.
  void fail_all(const Error& error);
  /// From now on new requests are refused.
  void drain() { draining_ = true; }

  /// What there is to say next. Take all of it before the next turn.
  std::optional<GroupMessage> next_outgoing();

  std::vector<GroupSnapshot> groups() const;
  uint32_t open_requests() const { return static_cast<uint32_t>(requests_.size()); }

 private:
  struct Group final {
    std::string name;
    bool connected = false;
    int64_t last_heard_ns = 0;
    bool lost_touch = false;    // nothing was heard for too long: the first words after that are old ones, and late
    int64_t deaf_until_ns = 0;  // to those
    wire::Status status;
    std::set<uint64_t> open;                   // wire numbers of its sequences
    std::set<uint64_t> unanswered;             // those of them that it has not accepted yet
    std::vector<wire::Cancel> unsent_cancels;  // at most one a sequence that was open

    bool serves() const { return connected && status.state == wire::GroupState::kServing; }
  };
  struct Sequence final {
    RequestId request = 0;
    size_t index = 0;
    size_t group = 0;
    uint32_t prompt_tokens = 0;
    uint32_t received = 0;  // generated tokens
    uint32_t to_score = 0;  // prompt logprobs that are asked for
    uint32_t scored = 0;    // and have come
    bool sent = false;      // the group may know of it
    int64_t submitted_ns = 0;
    int64_t last_token_ns = 0;
    SequenceOutput output;
  };
  /// A Submit has the whole prompt and all that its request shares, so it is made when it is its turn to be sent.
  struct Unsent final {
    uint64_t number = 0;
    std::shared_ptr<const GenerationSpec> spec;
  };
  struct Outgoing final {
    size_t group = 0;
    std::variant<wire::Message, Unsent> what;
  };
  struct Request final {
    std::shared_ptr<GenerationSink> sink;
    std::vector<uint64_t> sequences;  // wire numbers of those that have not ended
    int64_t submitted_ns = 0;
    int64_t deadline_ns = 0;
  };

  void notice_pause();
  bool is_late_news(Group& group) const;
  void check_model(wire::Status& status) const;
  void on(size_t index, wire::Status status);
  void on(size_t group, wire::Accepted accepted);
  void on(size_t group, wire::Tokens tokens);
  void on(size_t group, const wire::Finished& finished);
  void on(size_t group, const wire::Rejected& rejected);
  void take_chunk(size_t group, wire::TokenChunk chunk);
  Result<size_t> choose_group(const std::string& model) const;
  void lose_group(size_t index, const std::string& why);
  void fail_unanswered(size_t index);
  void end_sequence(uint64_t number, const wire::Finished& finished);
  void finish(uint64_t number, OutputChunk last);
  void abandon(RequestId id, wire::FinishReason reason);
  void refuse(uint64_t number, const Error& error, uint32_t retry_after_s);
  void fail(RequestId id, const Error& error, uint32_t retry_after_s = 0);
  void forget_sequence(uint64_t number);
  void send(size_t group, wire::Message message) { outgoing_.push_back({group, std::move(message)}); }

  const CoreOptions options_;
  const Clock& clock_;
  const CoreObserver observer_;
  bool draining_ = false;
  std::vector<Group> groups_;
  std::map<RequestId, Request> requests_;
  std::set<std::pair<int64_t, RequestId>> deadlines_;  // of requests_
  std::map<uint64_t, Sequence> sequences_;             // by wire number
  uint64_t next_number_ = 1;
  int64_t last_heartbeat_ns_ = 0;
  int64_t last_turn_ns_ = 0;  // when this machine last ran
  std::deque<Outgoing> outgoing_;
};

}  // namespace krait::requests
