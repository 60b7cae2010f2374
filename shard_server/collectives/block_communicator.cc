#include "shard_server/collectives/block_communicator.h"

#include <algorithm>

#include "common/base/check.h"

namespace krait::collectives {
namespace {

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
      algorithms_(options.algorithms),
      rank_(options.rank),
      world_(options.world),
      timeout_ns_(options.timeout_ns),
      clock_(clock_of(options)),
      path_(kernels::best_cpu_path()),
      signals_(std::move(signals)),
      mail_(block, options.rank, *signals_) {}

BlockCommunicator::~BlockCommunicator() {
  if (running_ != next_ || mail_.is_moving()) signals_->fail(Errc::kUnavailable, "left with operations in flight");
}

Result<Ticket> BlockCommunicator::begin(Operation operation) {
  const int64_t start_ns = machine_now_ns();
  RETURN_IF_ERROR(block_health(block_));
  if (next_ - first_open_ == static_cast<uint32_t>(limits::kMaxCollectiveTickets)) {
    return Error{Errc::kResourceExhausted,
                 fmt::format("{} collectives are in flight already", limits::kMaxCollectiveTickets), ""};
  }
  if (operation.stage_bytes == 0) operation.stage_bytes = config_.stage_bytes;
  operation.cut(world_, operation.stage_bytes);
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

bool BlockCommunicator::post_what_fits() {
  bool posted = false;
  for (; posting_ != next_; ++posting_) {
    Operation& operation = at(posting_);
    for (; operation.posted < operation.chunks; ++operation.posted) {
      const int64_t step = operation.first_step + operation.posted;
      if (!signals_->reached({Counter::kConsumed, step + 1 - kBlockSlots})) return posted;
      post(operation, operation.posted);
      signals_->publish(Counter::kPosted, operation, operation.posted);
      posted = true;
    }
  }
  return posted;
}

void BlockCommunicator::post(const Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  block_.note(slot, rank_) = operation.note(rank_, chunk);
  if (operation.kind == OpKind::kAllReduce) {
    const WireChunk piece = operation.sum_chunk(chunk);
    return ChunkSum(piece, config_.order, path_).pack(operation.floats_in(), block_.stage(slot, rank_));
  }
  if (operation.kind == OpKind::kReduceScatter) {
    for (int owner = 0; owner < world_; ++owner) {
      WireChunk piece = operation.scatter_chunk(owner, world_, chunk);
      piece.row += stripe_of(owner, world_, operation.sum.rows).begin;
      const int64_t begin = operation.scatter_range(owner, world_, chunk).begin_bytes;
      ChunkSum(piece, config_.order, path_).pack(operation.floats_in(), block_.stage(slot, rank_) + begin);
    }
    return;
  }
  const Range range = operation.part_range(rank_, chunk);
  copy_bytes(block_.stage(slot, rank_), operation.in + range.begin_bytes, range.bytes);
}

// What the operation's next chunk waits for.
Goal BlockCommunicator::goal(const Operation& operation) const {
  const int64_t step = operation.first_step + operation.completed;
  // The slot's last readers are not done.
  if (operation.posted == operation.completed) return {Counter::kConsumed, step + 1 - kBlockSlots};
  return {operation.has_reduced ? Counter::kReduced : Counter::kPosted, step + 1};
}

// Does all that needs no waiting, of messages and of the operations before `end`; whether there was anything to do.
Result<bool> BlockCommunicator::move(uint32_t end) {
  bool moved = post_what_fits();
  while (end - running_ <= next_ - running_ && running_ != end) {
    Operation& operation = at(running_);
    if (operation.completed == operation.chunks) {
      ++running_;
      continue;
    }
    if (!signals_->reached(goal(operation))) break;
    moved = true;
    RETURN_IF_ERROR(go_on(operation));
    post_what_fits();
  }
  if (!mail_.is_moving()) return moved;
  ASSIGN_OR_RETURN(const bool delivered, mail_.move());
  return moved || delivered;
}

// One step on, of an operation whose goal is reached.
Status BlockCommunicator::go_on(Operation& operation) {
  const uint32_t chunk = operation.completed;
  if (operation.posted == chunk) return {};  // the slot is free now
  if (!operation.has_reduced) RETURN_IF_ERROR(check_notes(operation, chunk));
  switch (operation.kind) {
    case OpKind::kAllReduce:
      if (!all_reduce_chunk(operation, chunk)) return {};
      break;
    case OpKind::kReduceScatter:
      scatter_chunk(operation, chunk);
      break;
    case OpKind::kAllGather:
      gather_chunk(operation, chunk);
      break;
    case OpKind::kBroadcast:
      broadcast_chunk(operation, chunk);
      break;
    default:
      break;
  }
  signals_->publish(Counter::kConsumed, operation, chunk);
  ++operation.completed;
  if (operation.sink != nullptr) {
    const int64_t rows = operation.elements_through(chunk) / operation.sink_width;
    if (rows > operation.sunk_rows) operation.sink->take(operation.sunk_rows, rows - operation.sunk_rows);
    operation.sunk_rows = rows;
  }
  return {};
}

Status BlockCommunicator::progress() {
  RETURN_IF_ERROR(block_health(block_));
  const int64_t start_ns = machine_now_ns();
  const uint32_t running = running_;
  signals_->move();
  RETURN_IF_ERROR(move(next_));
  if (running != next_) at(running).time_ns += machine_now_ns() - start_ns;
  return {};
}

Operation& BlockCommunicator::at(Ticket ticket) {
  CHECK(ticket.sequence - first_open_ < next_ - first_open_);
  CHECK(is_open_[ticket.sequence % limits::kMaxCollectiveTickets]);
  return at(ticket.sequence);
}

Status BlockCommunicator::finish(Ticket ticket) {
  RETURN_IF_ERROR(block_health(block_));
  const int64_t set_ns = deadline_ns_.load(std::memory_order_relaxed);
  const int64_t deadline_ns = set_ns != kNoDeadline ? set_ns : clock_.now_ns() + timeout_ns_;
  if (ticket.queue != Ticket::kGroup) return finish_message(ticket, deadline_ns);
  const int64_t start_ns = machine_now_ns();
  Operation& operation = at(ticket);
  while (operation.completed < operation.chunks) {
    ASSIGN_OR_RETURN(const bool moved, move(ticket.sequence + 1));
    if (!moved) RETURN_IF_ERROR(wait(ticket, at(running_).wait_ns, deadline_ns));
  }
  RETURN_IF_ERROR(signals_->flush(Goal::kEveryRank, deadline_ns));
  operation.time_ns += machine_now_ns() - start_ns;
  const Codec codec = operation.sum.codec != nullptr ? operation.sum.codec->codec : Codec::kFloat32;
  count(operation.kind, codec, operation.part_bytes(rank_), operation.time_ns, operation.wait_ns);
  is_open_[ticket.sequence % limits::kMaxCollectiveTickets] = false;
  while (first_open_ != next_ && !is_open_[first_open_ % limits::kMaxCollectiveTickets])
    ++first_open_;
  return {};
}

Status BlockCommunicator::finish_message(Ticket ticket, int64_t deadline_ns) {
  const int64_t start_ns = machine_now_ns();
  Mail::Message& message = mail_.at(ticket);
  while (!message.has_moved()) {
    ASSIGN_OR_RETURN(const bool moved, move(next_));
    if (!moved) RETURN_IF_ERROR(wait(ticket, message.wait_ns, deadline_ns));
  }
  const bool is_send = Mail::kind(ticket) == OpKind::kSend;
  if (is_send) RETURN_IF_ERROR(signals_->flush(Mail::peer(ticket), deadline_ns));
  message.time_ns += machine_now_ns() - start_ns;
  count(Mail::kind(ticket), Codec::kFloat32, is_send ? message.bytes : 0, message.time_ns, message.wait_ns);
  mail_.close(ticket);
  return {};
}

// Until something can move on; what `ticket` waits for comes first.
Status BlockCommunicator::wait(Ticket ticket, int64_t& wait_ns, int64_t deadline_ns) {
  std::array<Goal, Mail::kMostGoals + 1> goals;
  size_t count = 0;
  const bool is_message = ticket.queue != Ticket::kGroup;
  if (!is_message) goals[count++] = goal(at(running_));
  count += mail_.goals(ticket, std::span(goals).subspan(count));
  if (is_message && running_ != next_) goals[count++] = goal(at(running_));
  Status status = signals_->wait(std::span(goals).first(count), deadline_ns);
  wait_ns += signals_->take_waited_ns();
  return status;
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

// Whether the chunk is done; a two-shot sum waits for the others' stripes in between.
bool BlockCommunicator::all_reduce_chunk(Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  const WireChunk piece = operation.sum_chunk(chunk);
  const ChunkSum sum(piece, config_.order, path_);
  std::array<const std::byte*, limits::kMaxWorld> stages;
  for (int peer = 0; peer < world_; ++peer)
    stages[static_cast<size_t>(peer)] = block_.stage(slot, peer);
  const std::span<const std::byte* const> parts = std::span(stages).first(static_cast<size_t>(world_));
  if (!operation.two_shot) {
    sum.add(parts, operation.floats_out());
    return true;
  }
  if (!operation.has_reduced) {
    // Nobody else reads this rank's part of its own stripe: the sum takes its place.
    sum.add_stripe(parts, stripe_of(rank_, world_, piece.blocks()), block_.stage(slot, rank_));
    signals_->publish(Counter::kReduced, operation, chunk);
    operation.has_reduced = true;
    return false;
  }
  for (int owner = 0; owner < world_; ++owner) {
    sum.unpack_stripe(block_.stage(slot, owner), stripe_of(owner, world_, piece.blocks()), operation.floats_out());
  }
  operation.has_reduced = false;
  return true;
}

void BlockCommunicator::scatter_chunk(const Operation& operation, uint32_t chunk) {
  const uint32_t slot = block_slot(operation.first_step + chunk);
  const int64_t begin = operation.scatter_range(rank_, world_, chunk).begin_bytes;
  const WireChunk piece = operation.scatter_chunk(rank_, world_, chunk);
  std::array<const std::byte*, limits::kMaxWorld> parts;
  for (int peer = 0; peer < world_; ++peer)
    parts[static_cast<size_t>(peer)] = block_.stage(slot, peer) + begin;
  ChunkSum(piece, config_.order, path_)
      .add(std::span(parts).first(static_cast<size_t>(world_)), operation.floats_out());
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

void BlockCommunicator::count(OpKind kind, Codec codec, int64_t bytes, int64_t time_ns, int64_t wait_ns) {
  OpCounters& counters = counters_[static_cast<size_t>(codec)][static_cast<size_t>(kind)];
  add(counters.operations, 1);
  add(counters.contributed_bytes, bytes);
  add(counters.time_ns, time_ns);
  add(counters.wait_ns, wait_ns);
}

CodecStatistics BlockCommunicator::codec_statistics() const {
  const auto read = [](const std::atomic<int64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  CodecStatistics statistics;
  for (size_t codec = 0; codec < statistics.size(); ++codec) {
    for (size_t kind = 0; kind < statistics[codec].size(); ++kind) {
      const OpCounters& counters = counters_[codec][kind];
      statistics[codec][kind] = OpStatistics{read(counters.operations), read(counters.contributed_bytes),
                                             read(counters.time_ns), read(counters.wait_ns)};
    }
  }
  return statistics;
}

}  // namespace krait::collectives
