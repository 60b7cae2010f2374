// The ranks of a group talk through a Communicator: sums, gathers, broadcasts, and messages from one rank to another.
// Every operation is split into begin and finish, so that computation can run between them. Every rank begins the same
// operations in the same order; messages are apart from that and concern nobody but the two ranks.
//
// Exactness: an all-reduce adds in fp32, in an order that depends on the world and the ReduceOrder alone, never on the
// message's size, the algorithm or the timing. Every rank ends with the same bits, a row alone or among others,
// whatever codec its parts travel in.
//
// Failure: a lost peer, a missed deadline, an abort or ranks that disagree about what they run give an Error from this
// operation and from every later one, on every rank. A communicator that failed once is thrown away with its epoch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/result.h"
#include "common/base/units.h"

namespace krait::collectives {

/// The order in which an all-reduce adds the ranks' parts r0, r1, ...
enum class ReduceOrder : uint32_t {
  kRankOrder,  // ((r0 + r1) + r2) + ...: any world
  kTree,       // ((r0 + r1) + (r2 + r3)) + ...: worlds of 1, 2, 4 and 8, the bits of one rank that holds all leaves
};

/// How the parts of a sum travel (codec.h, wire_rows.h). It is fixed for each (layer, operation) when the group forms.
enum class Codec : uint32_t {
#define CODEC(constant, name, format, rotated, error) constant,
#include "shard_server/collectives/codecs.def"
#undef CODEC
};

inline constexpr int kCodecCount = 0
#define CODEC(constant, name, format, rotated, error) +1
#include "shard_server/collectives/codecs.def"
#undef CODEC
    ;

/// What a rank does with the rows of a sum as soon as it has them, while they are still in its cache and before the
/// next ones have come (residual_norm.h).
class RowSink {
 public:
  virtual ~RowSink() = default;

  /// `rows` rows of `out` from `first` on hold their sums. Every row comes once, in order, inside finish or progress of
  /// this rank's communicator. It may change them, and begins no operation.
  virtual void take(int64_t first, int64_t rows) = 0;
};

/// How to run one sum; ranks must agree on all but the sink.
struct ReduceSpec final {
  Codec codec = Codec::kFloat32;
  int64_t exact_lanes = 0;  // last elements of each row that travel as floats all the same; up to kMaxExactLanes
  RowSink* sink = nullptr;  // of an all-reduce only; outlives the operation
};

/// What an operation is, for statistics and metric labels.
enum class OpKind : uint32_t { kAllReduce, kAllGather, kBroadcast, kBarrier, kReduceScatter, kSend, kRecv };
inline constexpr int kOpKinds = 7;
std::string_view op_name(OpKind kind);

/// An operation in flight. It belongs to the communicator that gave it.
struct Ticket final {
  uint32_t sequence = 0;
  int32_t queue = kGroup;  // of a message: between which two ranks

  static constexpr int32_t kGroup = -1;
};

/// What one kind of operation has cost this rank since the communicator was made.
struct OpStatistics final {
  int64_t operations = 0;         // finished without error
  int64_t contributed_bytes = 0;  // this rank's own parts, as they travel
  int64_t time_ns = 0;            // inside begin and finish, waiting included
  int64_t wait_ns = 0;            // of that, waiting for the latest peer
};
using Statistics = std::array<OpStatistics, kOpKinds>;
/// The same by the codec that parts travel in; what is no sum is kFloat32's.
using CodecStatistics = std::array<Statistics, kCodecCount>;

/// A stretch of rows, or of whatever else is divided among ranks.
struct Stripe final {
  int64_t begin = 0;
  int64_t count = 0;
};
/// What `rank` of `world` gets of `count`: equal stripes in rank order, the last ones shorter or empty.
Stripe stripe_of(int rank, int world, int64_t count);

/// One rank's end of a group. begin_* and finish are for one thread at a time; abort and statistics for any thread.
/// Buffers stay untouched by the caller from begin to finish. At most limits::kMaxCollectiveTickets are in flight, and
/// limits::kMaxPairMessages from one rank to another.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual uint64_t epoch() const = 0;
  /// The implementation's name in collectives.def.
  virtual std::string_view transport() const = 0;

  /// out[rows][width] = sum over ranks of in[rows][width], rounded as the codec says. `in` may be `out`, else they do
  /// not overlap. What is not finite in a part is not finite in the sum.
  virtual Result<Ticket> begin_all_reduce(int64_t rows, int64_t width, const float* in, float* out,
                                          const ReduceSpec& spec) = 0;
  Result<Ticket> begin_all_reduce(int64_t rows, int64_t width, const float* in, float* out) {
    return begin_all_reduce(rows, width, in, out, ReduceSpec{});
  }

  /// out[count][width] = the rows of stripe_of(rank, world, rows) of what begin_all_reduce would give, bit for bit.
  /// `out` does not overlap `in[rows][width]`.
  virtual Result<Ticket> begin_reduce_scatter(int64_t rows, int64_t width, const float* in, float* out,
                                              const ReduceSpec& spec) = 0;

  /// out[world][bytes_per_rank]: every rank's `in[bytes_per_rank]`, in rank order.
  virtual Result<Ticket> begin_all_gather(int64_t bytes_per_rank, const void* in, void* out) = 0;

  /// Rank r holds in[rows][row_bytes[r]]; out[rows][sum of row_bytes] is each row's pieces side by side in rank order.
  /// All ranks pass the same `row_bytes` (one entry a rank; 0 is allowed). `in` and `out` do not overlap.
  virtual Result<Ticket> begin_all_gather_rows(int64_t rows, std::span<const int64_t> row_bytes, const void* in,
                                               void* out) = 0;

  /// data[bytes] of rank `root` comes to every rank.
  virtual Result<Ticket> begin_broadcast(int root, int64_t bytes, void* data) = 0;

  /// Ends when every rank has begun it.
  virtual Result<Ticket> begin_barrier() = 0;

  /// data[bytes] goes to rank `to`, which begins to receive as many bytes. The n-th message from one rank to another is
  /// the n-th that is received there; the other ranks need do nothing, nor these two anything at the same time. Its
  /// finish waits only until all bytes are on their way, which a receiver that has not begun may delay.
  virtual Result<Ticket> begin_send(int to, int64_t bytes, const void* data) = 0;
  /// data[bytes] = the next message from rank `from`. A message of another size is kProtocol for the group.
  virtual Result<Ticket> begin_recv(int from, int64_t bytes, void* data) = 0;

  /// Does what can be done at once for all that is in flight: posts, takes in, moves bytes. Never waits for a peer. For
  /// ranks that compute between begin and finish; not needed otherwise.
  virtual Status progress() = 0;

  /// Waits for the operation, and for those begun before it (of a message: those of the same two ranks and direction).
  /// Whatever else is in flight goes on meanwhile. Operations may be finished in any order; the same ticket once.
  /// kUnavailable after an abort, kDeadlineExceeded, or kProtocol when ranks disagree about the operation.
  virtual Status finish(Ticket ticket) = 0;

  /// Waits end at `deadline_ns` of the communicator's clock from now on. Until this is first called, each finish waits
  /// for Options::timeout_ns at most. A missed deadline fails the group: all ranks get kDeadlineExceeded.
  virtual void set_deadline_ns(int64_t deadline_ns) = 0;

  /// Fails the group on every rank, now and for good, and wakes whoever waits. Only the first reason counts.
  virtual void abort(std::string_view reason) = 0;

  /// OK, or the error that the group failed with.
  virtual Status health() const = 0;

  virtual CodecStatistics codec_statistics() const = 0;
  /// Of all codecs together.
  Statistics statistics() const;

  // begin and finish in one.
  Status all_reduce(int64_t rows, int64_t width, const float* in, float* out, const ReduceSpec& spec = {});
  Status reduce_scatter(int64_t rows, int64_t width, const float* in, float* out, const ReduceSpec& spec = {});
  Status all_gather(int64_t bytes_per_rank, const void* in, void* out);
  Status all_gather_rows(int64_t rows, std::span<const int64_t> row_bytes, const void* in, void* out);
  Status broadcast(int root, int64_t bytes, void* data);
  Status barrier();
  Status send(int to, int64_t bytes, const void* data);
  Status recv(int from, int64_t bytes, void* data);
};

/// Adds `more` to `to`, entry by entry.
void add_statistics(const Statistics& more, Statistics& to);

class LoopbackHub;
class SumTable;
class TcpListener;

/// What a communicator is made from. All ranks of a group pass the same values, except `rank`, `may_spin`, `clock` and
/// `listener`.
struct Options final {
  std::string name;    // of the group: [A-Za-z0-9._-], at most 64; shared memory finds it by this
  uint64_t epoch = 0;  // this forming of the group; random, never used twice
  int rank = 0;        // 0 <= rank < world
  int world = 1;       // 1 .. limits::kMaxWorld
  ReduceOrder order = ReduceOrder::kRankOrder;
  int64_t max_rows = 1;  // usual largest message: sizes the staging buffers, bounds nothing
  int64_t max_width = 1;
  // Most bytes of a rank's part that are on the way in one step; limits::kMinCollectiveStageBytes at least.
  int64_t stage_bytes = limits::kCollectiveStageBytes;
  int64_t two_shot_bytes = 64 * kKiB;          // parts above this are reduced in stripes (3 ranks and more); same bits
  std::shared_ptr<const SumTable> algorithms;  // for codecs that it has, in place of both; same bits
  bool may_spin = false;  // waits spin for limits::kCollectiveSpinNs before they sleep, as long as that pays
  int64_t timeout_ns = limits::kCollectiveTimeoutNs;  // forming the group, and each finish until set_deadline_ns
  const Clock* clock = nullptr;                       // of deadlines; none: the steady clock. Outlives the communicator
  const std::atomic<bool>* cancel = nullptr;  // while forming: set by another thread, it ends that with kUnavailable
  std::shared_ptr<LoopbackHub> hub;           // loopback only: where the ranks of this process meet
  std::string address;                        // TCP only: where rank 0 listens, "10.0.0.1:7100"
  std::shared_ptr<TcpListener> listener;      // TCP, rank 0 only: the socket at that address
};

/// Makes this rank's end; returns when all ranks have come, or with kDeadlineExceeded (a rank did not come in time),
/// kProtocol (ranks with different options), kResourceExhausted (no memory for the group), kInvalidArgument.
using CommunicatorFactory = Result<std::unique_ptr<Communicator>> (*)(const Options& options);

}  // namespace krait::collectives
