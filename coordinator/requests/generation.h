// What a client asks of the cluster and what comes back: plain data between the API and the request core.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "coordinator/tokenizer/stop_strings.h"

namespace krait::requests {

/// What all sequences of a request have in common. It may be large, so nobody has a copy for each of them.
struct SharedSpec final {
  uint32_t max_tokens = 16;
  wire::SamplingParams sampling;                       // stop_ids sorted; a sequence has its own seed and choice
  std::shared_ptr<const tokenizer::StopStrings> stop;  // not in the output unless include_stop; null: none
  bool include_stop = false;                           // leave the stop string that was met in the text
  bool skip_special_tokens = true;                     // in the text; tokens always have them
};

struct PromptSpec final {
  std::vector<int32_t> tokens;  // at least one
  uint64_t seed = 0;            // of its choices
};

/// A request: its sequences live and end together when it is cancelled or fails. Sequence p * n + c is choice c of
/// prompt p.
struct GenerationSpec final {
  std::string request_id;  // of the HTTP exchange, for logs
  std::string model;       // served name
  std::string client;      // key for fairness between clients
  int64_t timeout_ms = 0;  // 0: the server's default
  std::vector<PromptSpec> prompts;
  uint32_t n = 1;  // choices of each
  SharedSpec shared;

  size_t sequences() const { return prompts.size() * n; }
  /// What a group is sent for a sequence, but for its number. timeout_ms is set.
  wire::Submit submit(size_t sequence) const;
};

enum class EndReason : uint8_t { kStop, kLength };

struct SequenceEnd final {
  EndReason reason = EndReason::kStop;
  std::string stop_string;  // which one ended it; empty: none did, so for kStop the last token is a stop token
  uint32_t generated = 0;   // tokens, the stop token included
  uint32_t cached_tokens = 0;
};

/// News of one sequence.
struct OutputChunk final {
  size_t sequence = 0;                  // below GenerationSpec::sequences()
  std::string numerics_id;              // set, and nothing else, when a group takes the sequence on: how it computes
  std::string text;                     // new text: whole characters; what may become a stop string is held
  std::vector<wire::TokenInfo> tokens;  // new tokens, in order; those of a held-back text come with it or before
  uint32_t first_prompt_position = 0;   // position of prompt_logprobs[0]'s token
  std::vector<wire::TokenInfo> prompt_logprobs;  // for sampling.prompt_logprobs, positions 1 to T - 1 in order
  std::optional<SequenceEnd> end;                // the last news of this sequence
};

/// Where a request's news go. Called on the core's thread, one call at a time: it must not block. After on_error, or
/// once every sequence has had its end, nothing more comes.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  virtual void on_chunk(OutputChunk chunk) = 0;
  /// The request has failed as a whole. retry_after_s > 0: worth trying again after that.
  virtual void on_error(const Error& error, uint32_t retry_after_s) = 0;
};

/// What the coordinator knows of one group.
struct GroupSnapshot final {
  std::string name;
  bool connected = false;  // heard of within limits::kPeerTimeoutNs
  bool serving = false;
  int64_t last_heard_ns = 0;    // when: its age decides, also where this process did not run for a while
  wire::Status status;          // the latest
  uint32_t open_sequences = 0;  // of this coordinator
};

}  // namespace krait::requests
