// Every bound of the system in one place. A queue, buffer, frame or loop without a line here is a fault.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/units.h"

namespace krait::limits {

// Groups and models.
inline constexpr int kMaxWorld = 8;                        // ranks of a group
inline constexpr int kMaxThreads = 256;                    // threads of a rank
inline constexpr int kMaxCpus = 1024;                      // of a host, and its NUMA nodes
inline constexpr int kLeaves = 8;                          // leaves of a K that is cut between ranks (contract, rule 1)
inline constexpr int64_t kMaxVocab = int64_t{1} << 22;     // vocabulary entries
inline constexpr int64_t kMaxHidden = int64_t{1} << 17;    // hidden or inner channels
inline constexpr int64_t kMaxLayers = 1024;                // layers
inline constexpr int64_t kMaxStateSize = 1024;             // d_state
inline constexpr int64_t kMaxMixerHeads = 256;             // heads with an x_proj of their own
inline constexpr int64_t kMaxConvKernel = 8;               // taps of the causal convolution
inline constexpr int64_t kMaxConfigBytes = 4 * kMiB;       // config.json and its like
inline constexpr int64_t kMaxTokenizerBytes = 256 * kMiB;  // tokenizer.json
inline constexpr int kMaxTokenizerDepth = 16;              // sequences of pipeline parts inside each other
inline constexpr int kMaxTokenizerParts = 64;              // parts of one such sequence
inline constexpr int64_t kMaxTokenBytes = 64 * kKiB;       // text of one token
inline constexpr int64_t kMaxScoredTokenBytes = 512;       // the same, where merges are found by scores
inline constexpr int64_t kMaxEncodeBytes = 64 * kMiB;      // text encoded in one call
inline constexpr int64_t kMaxNormalizedBytes = 512 * kMiB;  // the same, after normalizers and byte mapping
inline constexpr int64_t kMaxRegexSteps = 10'000'000;       // of one match of a tokenizer's pattern
inline constexpr int64_t kRegexNs = 1 * kSecond;            // processor time of all patterns on one text,
inline constexpr int64_t kRegexNsPerByte = 1 * kUs;         // and this much more for each of its bytes
inline constexpr int kTokenizerCacheWords = 32'768;         // words whose ids one encoding thread remembers
inline constexpr int kMaxIdleTokenizerScratches = 16;       // caches kept between calls
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100 * kMiB;
inline constexpr int64_t kMaxGgufHeaderBytes = 512 * kMiB;  // all that stands before a GGUF file's tensors
inline constexpr int64_t kMaxGgufKeys = 65'536;             // of its metadata
inline constexpr int64_t kMaxGgufKeyBytes = 1 * kKiB;
inline constexpr int64_t kMaxGgufTextBytes = 16 * kMiB;  // one value that is a text
inline constexpr int64_t kMaxGgufAlignment = 64 * kKiB;
inline constexpr int kMaxGgufNesting = 4;                 // arrays inside arrays
inline constexpr int64_t kMaxIndexBytes = 64 * kMiB;      // model.safetensors.index.json
inline constexpr int64_t kMaxCheckpointFiles = 1024;      // files of one checkpoint
inline constexpr int64_t kMaxTensors = int64_t{1} << 20;  // tensors of one file
inline constexpr int64_t kMaxTensorAxes = 8;              // axes of a tensor
inline constexpr int64_t kKvPageTokens = 16;              // tokens of a page of keys and values
inline constexpr int64_t kLeastKvTokens = 1024;           // that a group's keys and values have room for
inline constexpr int64_t kMaxKvPages = int64_t{1} << 24;  // pages of a rank
inline constexpr int64_t kMaxTensorNameBytes = 256;       // of its name
inline constexpr int64_t kMaxEosIds = 128;                // ids that end a text
inline constexpr double kMinShare = 1e-6;                 // speeds of ranks against each other
inline constexpr double kMaxShare = 1e6;

// Requests.
inline constexpr int64_t kMaxBodyBytes = 8 * kMiB;               // body of a request, by default
inline constexpr int64_t kMaxHeaderBytes = 64 * kKiB;            // request line and headers together
inline constexpr int64_t kMaxPromptTokens = int64_t{1} << 20;    // tokens of one prompt
inline constexpr int64_t kMaxSequenceTokens = int64_t{1} << 24;  // prompt and generated tokens of one sequence
inline constexpr int64_t kMaxScoredEntries =
    int64_t{65'536} * 21;  // echoed positions of a request x (1 + their alternatives)
inline constexpr int64_t kMaxSequencePages = kMaxSequenceTokens / kKvPageTokens;
inline constexpr int64_t kMaxGeneratedTokens = int64_t{1} << 20;  // max_tokens
inline constexpr int64_t kMaxEchoLogprobTokens = 65'536;          // prompt tokens whose logprobs are returned
inline constexpr int kMaxPromptsPerRequest = 2048;                // prompts of one request
inline constexpr int kMaxChoices = 128;                           // n
inline constexpr int kMaxSequencesPerRequest = 2048;              // prompts x n
inline constexpr int kMaxLogprobs = 20;                           // alternatives a position
inline constexpr int kMaxStopStrings = 16;
inline constexpr int kMaxStopStringCharacters = 1024;
inline constexpr int kMaxStopTokens = 128;
inline constexpr int kMaxStopIds = 2 * kMaxStopTokens;  // the model's own and the request's together
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxMarks = 64;  // prompt lengths whose state a client wants kept
inline constexpr int64_t kMaxDeadlineMs = int64_t{7} * 24 * 3600 * 1000;
inline constexpr int kMaxJsonDepth = 64;
inline constexpr int kMaxQuotedBytes = 160;                     // of what a client sent, in an error's message
inline constexpr int kMaxNamedUnknownFields = 16;               // in the header that names them
inline constexpr int64_t kMaxRequestTokens = int64_t{1} << 24;  // prompt tokens of all sequences of one request
inline constexpr int64_t kMaxApiWorkBytes = 256 * kMiB;         // bodies of requests that wait to be read
inline constexpr size_t kMaxApiWork = 1024;                     // requests that wait to be read and tokenized
inline constexpr int64_t kMaxOpenSequences = 65'536;            // of all requests that one coordinator holds
inline constexpr int64_t kMaxOpenTokens = int64_t{1} << 27;     // of their prompts
inline constexpr int64_t kMaxRetryAfterS = 60;                  // worth telling a client who was refused

// Chat templates. A render's memory counts what it made in all, so that bounds its time too.
inline constexpr int64_t kMaxTemplateSourceBytes = 1 * kMiB;
inline constexpr int kMaxNamedTemplates = 64;             // of one model
inline constexpr int64_t kMaxTemplateSteps = 20'000'000;  // evaluations and items passed over, of one render
inline constexpr int64_t kMaxTemplateBytes = 512 * kMiB;  // values and text that one render makes
inline constexpr int kMaxTemplateDepth = 1000;  // evaluations inside each other, of one render: 8 KiB of stack each
inline constexpr int kMaxTemplateSyntaxDepth = 200;  // expressions and blocks inside each other, in the file
inline constexpr int kMaxTemplateNesting = 200;      // lists and dicts inside each other
inline constexpr int kMaxChatMessages = 100'000;
inline constexpr int kMaxChatTools = 4096;

// Connections.
inline constexpr int kMaxConnections = 4096;
inline constexpr int64_t kMaxStreamBacklogBytes = 1 * kMiB;  // unsent bytes of a stream before it is cancelled
inline constexpr int64_t kMaxUnsentBytes = 1 * kGiB;         // of all answers together
inline constexpr int64_t kMaxWholeAnswerBytes = 256 * kMiB;  // of an answer that is not streamed
inline constexpr int64_t kSmallAnswerBytes = 64 * kKiB;      // always sent: errors, and most others
inline constexpr int64_t kLeastProgressBytes = 32 * kKiB;  // a reader that leaves more waiting must take it, see below
inline constexpr int64_t kStreamStallNs = 30 * kSecond;    // a reader that takes nothing for this long is cancelled
inline constexpr int64_t kHeaderTimeoutNs = 10 * kSecond;  // first byte to last header byte
inline constexpr int64_t kBodyTimeoutNs = 60 * kSecond;
inline constexpr int64_t kIdleConnectionNs = 75 * kSecond;
inline constexpr int64_t kKeepAliveCommentNs = 10 * kSecond;  // SSE comment when nothing else was sent
inline constexpr int kMaxRequestHeaders = 256;                // header fields of a request
inline constexpr int kMaxRequestIdBytes = 128;                // x-request-id of a client
inline constexpr int64_t kMaxPipelinedBytes = 64 * kKiB;    // read ahead while a request of the connection is answered
inline constexpr int64_t kMaxBufferedBodyBytes = 1 * kGiB;  // bodies being read, all connections together
inline constexpr int64_t kSocketSendBufferBytes = 256 * kKiB;  // the kernel's share of a stream's backlog
inline constexpr int64_t kLingerNs = 2 * kSecond;              // an early answer may be read this long before the close
inline constexpr int64_t kPeerPollNs = 50 * kMs;               // looks for a close behind bytes that are not read yet
inline constexpr int64_t kAcceptRetryNs = 100 * kMs;           // after accept failed for want of descriptors
inline constexpr int kMaxRefusedConnections = 64;  // over the limit, being told so at once; more are just closed
inline constexpr int kListenBacklog = 1024;
inline constexpr int kMaxMetricsConnections = 64;
inline constexpr int64_t kMaxMetricsHeaderBytes = 8 * kKiB;

// Wire between daemons.
inline constexpr int64_t kMaxWireMessageBytes = 64 * kMiB;
inline constexpr int kMaxWireDepth = 16;
inline constexpr int64_t kMaxWireNameBytes = 1 * kKiB;   // names, keys, ids
inline constexpr int64_t kMaxWireTextBytes = 16 * kKiB;  // words for people; longer ones are cut when sent
inline constexpr int kMaxPeerNameBytes = 255;            // a transport's name for a peer (ZeroMQ's bound)
inline constexpr int kMaxIpcPathBytes = 107;             // sun_path less its end
inline constexpr int64_t kWireFlushNs = 200 * kMs;       // queued messages may still leave after a transport is closed
inline constexpr int kWireHighWaterMark = 16'384;        // messages queued for one peer
inline constexpr int64_t kHeartbeatNs = 500 * kMs;
inline constexpr int64_t kStatusNs = 20 * kMs;            // a group's news of its load come this often at most
inline constexpr int64_t kCoreTickNs = 50 * kMs;          // longest sleep of a daemon's loop
inline constexpr int kMessagesPerTick = 1024;             // taken before timers are looked at again
inline constexpr int64_t kPeerTimeoutNs = 3 * kSecond;    // without a word, a peer is lost
inline constexpr int64_t kAnswerTimeoutNs = 9 * kSecond;  // what a living leader does not answer in this time was lost
inline constexpr int64_t kReformDelayNs = 1 * kSecond;    // from a group's loss to its next forming
inline constexpr int kMaxCoordinators = 256;              // that one group serves
inline constexpr int kMaxRankRivals = 16;  // processes that say they are the same rank, remembered while one of them is
inline constexpr int64_t kFirstWaitWordNs = 5 * kSecond;  // who waits for a peer says so after this long
inline constexpr int64_t kNextWaitWordNs = 30 * kSecond;  // and then this often

// Processes.
inline constexpr int64_t kHardStopNs = 5 * kSecond;  // from the second request to stop to the end, whatever runs
inline constexpr int kDescriptorsBeside = 256;       // of a daemon, beside the connections of its clients
inline constexpr int kLeastConnections = 16;         // with fewer descriptors than these need, nothing is served

// Scheduling.
inline constexpr int64_t kMaxGroupNameBytes = 24;  // part of the names of sockets and segments
inline constexpr int kMaxPlansInFlight = 2;
inline constexpr int kMaxRankCommands = 64;  // commands that wait for one rank
inline constexpr int kMaxSlots = 4096;
inline constexpr int kDefaultMaxSlots = 256;   // most that sizing to memory picks by itself
inline constexpr int kDefaultMaxQueue = 1024;  // waiting requests of a group
inline constexpr int kMaxQueue = 1 << 20;
inline constexpr int64_t kMaxQueuedTokens = int64_t{1} << 26;  // prompt tokens of all waiting requests of a group
inline constexpr int kMaxStepRows = 2048;                      // rows of one step, decode and prefill together
inline constexpr int64_t kSharedPromptRows = 4096;             // of one rank's part of a prompt that ranks share
inline constexpr int64_t kLeastSharedRows = 512;  // of a part: fewer compute faster than a slow link brings their state
inline constexpr double kSharedPromptMs = 2'000;  // that a step of a shared prompt may take: somebody new waits for it
inline constexpr int kLonePrefillFactor = 4;      // times --max-step-ms that a step without a decode row may take,
inline constexpr int64_t kLonePrefillRows = 128;  // and rows up to which a longer step of prefill is worth its time
inline constexpr int kLogitRowsPerPass = 32;      // rows of lm_head computed and held at once

// Collectives.
inline constexpr int kMaxCollectiveTickets = 8;               // operations in flight of one rank
inline constexpr int64_t kOverlapRows = 64;                   // of a step whose halves take turns between hosts
inline constexpr int64_t kCollectiveStageBytes = 256 * kKiB;  // of a rank's part, on the way in one step
inline constexpr int kMaxPairMessages = 8;                    // in flight from one rank to another
inline constexpr int64_t kMaxPairPieceBytes = 64 * kKiB;      // of a message, on the way at once
inline constexpr int64_t kMinCollectiveStageBytes = 512;      // a codec's block and the exact lanes
inline constexpr int64_t kMaxCollectiveStageBytes = 4 * kMiB;
inline constexpr int64_t kMaxHiddenSums = 3 * kMaxLayers;  // of a model: out_proj, o_proj, down_proj
inline constexpr int64_t kMaxSumAlgorithms = 256;          // rows of a plan's table
inline constexpr int64_t kMaxSizeCodecs = 64;              // rows of a plan's codecs by size
inline constexpr int64_t kMaxPlanBytes = 1 * kMiB;         // of a plan's file
inline constexpr int64_t kMaxExactLanes = 16;              // columns of a sum that travel as floats beside packed ones
inline constexpr int64_t kMaxCollectiveMessageBytes = int64_t{1}
                                                      << 32;   // a rank's part, or the result, of one operation
inline constexpr int64_t kCollectiveSpinNs = 50 * kUs;         // a wait spins this long at most, then sleeps
inline constexpr int kMaxUnspunWaits = 15;                     // after spins that ended in vain: these sleep at once
inline constexpr int64_t kCollectiveSleepNs = 20 * kMs;        // one sleep; then deadline and abort are looked at
inline constexpr int64_t kCollectiveTimeoutNs = 30 * kSecond;  // of an operation without a deadline of its own
inline constexpr int kMaxTcpGuests = 64;                       // connections that have not said whose they are
inline constexpr int64_t kTcpReceiveBytes = 16 * kKiB;         // of one peer, read ahead of what they are for
inline constexpr int kMaxTcpFrames = 64;                       // of one peer, not yet taken by the kernel
inline constexpr int64_t kTcpKeepAliveNs = 5 * kSecond;        // without a word, the peer's host is asked, three times

// Metrics.
inline constexpr int kMaxMetricSeries = 512;  // label sets of one metric; later ones share the series "other"

static_assert(kMaxStepRows >= kDefaultMaxSlots, "a step must hold one decode row a slot");
static_assert(kMaxPromptTokens * 4 < kMaxWireMessageBytes, "a prompt must fit one message");
static_assert(kMaxEchoLogprobTokens <= kMaxPromptTokens);
static_assert(kMaxPromptTokens + kMaxGeneratedTokens <= kMaxSequenceTokens, "what the API takes, the wire takes");
static_assert(kMaxRequestTokens <= kMaxOpenTokens && kMaxSequencesPerRequest <= kMaxOpenSequences);
static_assert(kMaxRequestTokens >= kMaxPromptTokens && kMaxRequestTokens <= kMaxQueuedTokens);
static_assert(kMaxPromptTokens < kMaxSequenceTokens, "a sequence is a prompt and what follows");

}  // namespace krait::limits
