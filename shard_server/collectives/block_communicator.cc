#include "shard_server/collectives/block_communicator.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace krait::collectives {
namespace {

constexpr int64_t kFloatBytes = static_cast<int64_t>(sizeof(float));

Error bad_size(std::string_view what) {
  return Error{
      Errc::kInvalidArgument,
      fmt::format("{}: a size is negative, or the message is above {} bytes", what, limits::kMaxCollectiveMessageBytes),
      ""};
}

// Whether rows x row_bytes is a size that an operation may have.
bool is_size(int64_t rows, int64_t row_bytes) {
  return rows >= 0 && row_bytes >= 0 && row_bytes <= limits::kMaxCollectiveMessageBytes &&
         (row_bytes == 0 || rows <= limits::kMaxCollectiveMessageBytes / row_bytes);
}

// memcpy may not be given null pointers, not even for nothing; empty operations may.
void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void add(std::atomic<int64_t>& counter, int64_t value) {
  counter.fetch_add(value, std::memory_order_relaxed);
}

}  // namespace

BlockCommunicator::BlockCommunicator(const Options& options, std::string_view transport, std::shared_ptr<void> memory,
                                     Block block, std::unique_ptr<Signals> signals)
    : transport_(transport),
      memory_(std::move(memory)),
      block_(block),
      config_(block.header().config),
      rank_(options.rank),
      world_(options.world),
      timeout_ns_(options.timeout_ns),
      clock_(clock_of(options)),
      path_(kernels::best_cpu_path()),
      signals_(std::move(signals)) {}

BlockCommunicator::~BlockCommunicator() {
  if (running_ != next_) signals_->fail(Errc::kUnavailable, "left with operations in flight");
}

Result<Ticket> BlockCommunicator::begin_all_reduce(int64_t rows, int64_t width, const float* in, float* out,
                                                   const ReduceSpec& spec) {
  if (width < 0 || width > limits::kMaxCollectiveMessageBytes || !is_size(rows, width * kFloatBytes)) {
    return bad_size("all_reduce");
  }
  if (static_cast<size_t>(spec.codec) >= all_codecs().size()) {
    return Error{Errc::kInvalidArgument, "this codec does not exist", "codec"};
  }
  if (spec.exact_lanes < 0 || spec.exact_lanes > std::min(width, limits::kMaxExactLanes)) {
    return Error{Errc::kInvalidArgument, fmt::format("{} exact lanes in rows of {}", spec.exact_lanes, width),
                 "exact_lanes"};
  }
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.detail = static_cast<uint32_t>(spec.codec) + (static_cast<uint32_t>(spec.exact_lanes) << 16);
  operation.shape_hash = hash_sizes(std::array{rows, width});
  // One rank sends nothing, so it rounds nothing.
  operation.sum =
      WireRows::make(codec_entry(world_ == 1 ? Codec::kFloat32 : spec.codec), rows, width, spec.exact_lanes);
  operation.rows = operation.sum.rows;
  operation.row_bytes.fill(operation.sum.row_bytes());
  operation.in = reinterpret_cast<const std::byte*>(in);
  operation.out = reinterpret_cast<std::byte*>(out);
  operation.two_shot = world_ > 2 && operation.part_bytes(rank_) > config_.two_shot_bytes;
  return begin(operation);
}

Result<Ticket> BlockCommunicator::begin_all_gather(int64_t bytes_per_rank, const void* in, void* out) {
  if (bytes_per_rank < 0) return bad_size("all_gather");
  std::array<int64_t, limits::kMaxWorld> row_bytes;
  row_bytes.fill(bytes_per_rank);
  return begin_all_gather_rows(1, std::span(row_bytes).first(static_cast<size_t>(world_)), in, out);
}

Result<Ticket> BlockCommunicator::begin_all_gather_rows(int64_t rows, std::span<const int64_t> row_bytes,
                                                        const void* in, void* out) {
  if (std::ssize(row_bytes) != world_) {
    return Error{Errc::kInvalidArgument, fmt::format("{} sizes for {} ranks", row_bytes.size(), world_), "row_bytes"};
  }
  int64_t whole_row = 0;
  for (const int64_t bytes : row_bytes) {
    if (!is_size(rows, bytes)) return bad_size("all_gather");
    whole_row += bytes;
  }
  if (!is_size(rows, whole_row)) return bad_size("all_gather");
  Operation operation;
  operation.kind = OpKind::kAllGather;
  operation.rows = rows;
  std::copy(row_bytes.begin(), row_bytes.end(), operation.row_bytes.begin());
  operation.shape_hash = hash_sizes(row_bytes);
  operation.in = static_cast<const std::byte*>(in);
  operation.out = static_cast<std::byte*>(out);
  return begin(operation);
}

Result<Ticket> BlockCommunicator::begin_broadcast(int root, int64_t bytes, void* data) {
  if (root < 0 || root >= world_) {
    return Error{Errc::kInvalidArgument, fmt::format("rank {} is not in a world of {}", root, world_), "root"};
  }
  if (!is_size(1, bytes)) return bad_size("broadcast");
  Operation operation;
  operation.kind = OpKind::kBroadcast;
  operation.detail = static_cast<uint32_t>(root);
  operation.rows = 1;
  operation.row_bytes[static_cast<size_t>(root)] = bytes;
  operation.shape_hash = hash_sizes(operation.row_bytes);
  operation.in = static_cast<const std::byte*>(data);
  operation.out = static_cast<std::byte*>(data);
  return begin(operation);
}

Result<Ticket> BlockCommunicator::begin_barrier() {
  return begin(Operation{});
}

Result<Ticket> BlockCommunicator::begin(Operation operation) {
  const int64_t start_ns = machine_now_ns();
  RETURN_IF_ERROR(block_health(block_));
  if (next_ - first_open_ == static_cast<uint32_t>(limits::kMaxCollectiveTickets)) {
    return Error{Errc::kResourceExhausted,
                 fmt::format("{} collectives are in flight already", limits::kMaxCollectiveTickets), ""};
  }
  operation.cut(world_, config_.stage_bytes);
  operation.sequence = next_;
  operation.first_step = next_step_;
  next_step_ += operation.chunks;
  at(next_) = operation;
  is_open_[next_ % limits::kMaxCollectiveTickets] = true;
  ++next_;
  post_what_fits();
  at(operation.sequence).time_ns += machine_now_ns() - start_ns;
  return Ticket{operation.sequence};
}

void BlockCommunicator::post_what_fits() {
  for (; posting_ != next_; ++posting_) {
    Operation& operation = at(posting_);
    for (; operation.posted < operation.chunks; ++operation.posted) {
      const int64_t step = operation.first_step + operation.posted;
      if (!signals_->reached(Counter::kConsumed, step + 1 - kBlockSlots)) return;
      post(operation, operation.posted);
      signals_->publish(Counter::kPosted, operation, operation.posted);
    }
  }
}

void BlockCommunicator::post(const Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  block_.note(slot, rank_) = operation.note(rank_, chunk);
  if (operation.kind == OpKind::kAllReduce) {
    const WireChunk piece = operation.sum_chunk(chunk);
    return ChunkSum(piece, config_.order, path_).pack(operation.floats_in(), block_.stage(slot, rank_));
  }
  const Range range = operation.part_range(rank_, chunk);
  copy_bytes(block_.stage(slot, rank_), operation.in + range.begin_bytes, range.bytes);
}

Status BlockCommunicator::finish(Ticket ticket) {
  RETURN_IF_ERROR(block_health(block_));
  const int64_t start_ns = machine_now_ns();
  CHECK(ticket.sequence - first_open_ < next_ - first_open_);
  bool& is_open = is_open_[ticket.sequence % limits::kMaxCollectiveTickets];
  CHECK(is_open);
  const int64_t set_ns = deadline_ns_.load(std::memory_order_relaxed);
  const int64_t deadline_ns = set_ns != kNoDeadline ? set_ns : clock_.now_ns() + timeout_ns_;
  while (ticket.sequence - running_ < next_ - running_) {
    Operation& operation = at(running_);
    while (operation.completed < operation.chunks) {
      post_what_fits();
      RETURN_IF_ERROR(advance(operation, deadline_ns));
    }
    ++running_;
  }
  RETURN_IF_ERROR(signals_->flush(deadline_ns));
  Operation& operation = at(ticket.sequence);
  operation.time_ns += machine_now_ns() - start_ns;
  count(operation);
  is_open = false;
  while (first_open_ != next_ && !is_open_[first_open_ % limits::kMaxCollectiveTickets])
    ++first_open_;
  return {};
}

Status BlockCommunicator::wait(Operation& operation, Counter which, int64_t steps, int64_t deadline_ns) {
  Status status = signals_->wait(which, steps, deadline_ns);
  operation.wait_ns += signals_->take_waited_ns();
  return status;
}

Status BlockCommunicator::advance(Operation& operation, int64_t deadline_ns) {
  const uint32_t chunk = operation.completed;
  const int64_t step = operation.first_step + chunk;
  // The slot's last readers are not done; post_what_fits() comes next.
  if (operation.posted == chunk) return wait(operation, Counter::kConsumed, step + 1 - kBlockSlots, deadline_ns);
  RETURN_IF_ERROR(wait(operation, Counter::kPosted, step + 1, deadline_ns));
  RETURN_IF_ERROR(check_notes(operation, chunk));
  switch (operation.kind) {
    case OpKind::kAllReduce:
      RETURN_IF_ERROR(all_reduce_chunk(operation, chunk, deadline_ns));
      break;
    case OpKind::kAllGather:
      gather_chunk(operation, chunk);
      break;
    case OpKind::kBroadcast:
      broadcast_chunk(operation, chunk);
      break;
    case OpKind::kBarrier:
      break;
  }
  signals_->publish(Counter::kConsumed, operation, chunk);
  ++operation.completed;
  return {};
}

Status BlockCommunicator::check_notes(const Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  const StepNote& mine = block_.note(slot, rank_);
  for (int peer = 0; peer < world_; ++peer) {
    const StepNote& theirs = block_.note(slot, peer);
    if (theirs == mine) [[likely]]
      continue;
    signals_->fail(Errc::kProtocol, fmt::format("runs {}, rank {} runs {}", describe(mine), peer, describe(theirs)));
    return block_health(block_);
  }
  return {};
}

Status BlockCommunicator::all_reduce_chunk(Operation& operation, uint32_t chunk, int64_t deadline_ns) {
  const int64_t step = operation.first_step + chunk;
  const uint32_t slot = block_slot(step);
  const WireChunk piece = operation.sum_chunk(chunk);
  const ChunkSum sum(piece, config_.order, path_);
  std::array<const std::byte*, limits::kMaxWorld> stages;
  for (int peer = 0; peer < world_; ++peer)
    stages[static_cast<size_t>(peer)] = block_.stage(slot, peer);
  const std::span<const std::byte* const> parts = std::span(stages).first(static_cast<size_t>(world_));
  if (!operation.two_shot) {
    sum.add(parts, operation.floats_out());
    return {};
  }
  // Nobody else reads this rank's part of its own stripe: the sum takes its place.
  sum.add_stripe(parts, stripe_of(rank_, world_, piece.blocks()), block_.stage(slot, rank_));
  signals_->publish(Counter::kReduced, operation, chunk);
  RETURN_IF_ERROR(wait(operation, Counter::kReduced, step + 1, deadline_ns));
  for (int owner = 0; owner < world_; ++owner) {
    sum.unpack_stripe(block_.stage(slot, owner), stripe_of(owner, world_, piece.blocks()), operation.floats_out());
  }
  return {};
}

void BlockCommunicator::gather_chunk(const Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  int64_t whole_row = 0;
  for (int peer = 0; peer < world_; ++peer)
    whole_row += operation.row_bytes[static_cast<size_t>(peer)];
  int64_t column = 0;  // where the peer's piece of a row begins
  for (int peer = 0; peer < world_; ++peer) {
    const int64_t row_bytes = operation.row_bytes[static_cast<size_t>(peer)];
    const Range range = operation.part_range(peer, chunk);
    const std::byte* from = block_.stage(slot, peer);
    for (int64_t done = 0; done < range.bytes;) {
      const int64_t row = (range.begin_bytes + done) / row_bytes;
      const int64_t within = (range.begin_bytes + done) % row_bytes;
      const int64_t bytes = std::min(row_bytes - within, range.bytes - done);
      copy_bytes(operation.out + row * whole_row + column + within, from + done, bytes);
      done += bytes;
    }
    column += row_bytes;
  }
}

void BlockCommunicator::broadcast_chunk(const Operation& operation, uint32_t chunk) {
  const int root = static_cast<int>(operation.detail);
  if (root == rank_) return;
  const Range range = operation.part_range(root, chunk);
  copy_bytes(operation.out + range.begin_bytes, block_.stage(block_slot(operation.first_step + chunk), root),
             range.bytes);
}

void BlockCommunicator::set_deadline_ns(int64_t deadline_ns) {
  deadline_ns_.store(std::max<int64_t>(deadline_ns, 0), std::memory_order_relaxed);
}

void BlockCommunicator::abort(std::string_view reason) {
  signals_->fail(Errc::kUnavailable, reason);
}

Status BlockCommunicator::health() const {
  return block_health(block_);
}

void BlockCommunicator::count(const Operation& operation) {
  OpCounters& counters = counters_[static_cast<size_t>(operation.kind)];
  add(counters.operations, 1);
  add(counters.contributed_bytes, operation.part_bytes(rank_));
  add(counters.time_ns, operation.time_ns);
  add(counters.wait_ns, operation.wait_ns);
}

Statistics BlockCommunicator::statistics() const {
  Statistics statistics;
  for (size_t kind = 0; kind < statistics.size(); ++kind) {
    const OpCounters& counters = counters_[kind];
    statistics[kind] = OpStatistics{
        counters.operations.load(std::memory_order_relaxed), counters.contributed_bytes.load(std::memory_order_relaxed),
        counters.time_ns.load(std::memory_order_relaxed), counters.wait_ns.load(std::memory_order_relaxed)};
  }
  return statistics;
}

}  // namespace krait::collectives
