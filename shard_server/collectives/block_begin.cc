// What each operation is made of before it is cut into steps: sizes checked, parts of each rank, what ranks must agree
// on.
#include <algorithm>

#include "shard_server/collectives/block_communicator.h"

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

}  // namespace

// What both kinds of sum have in common, but for how their rows travel.
Result<Operation> BlockCommunicator::make_sum(OpKind kind, int64_t rows, int64_t width, const float* in, float* out,
                                              const ReduceSpec& spec) {
  if (width < 0 || width > limits::kMaxCollectiveMessageBytes || !is_size(rows, width * kFloatBytes)) {
    return bad_size(op_name(kind));
  }
  if (static_cast<size_t>(spec.codec) >= all_codecs().size()) {
    return Error{Errc::kInvalidArgument, "this codec does not exist", "codec"};
  }
  if (spec.exact_lanes < 0 || spec.exact_lanes > std::min(width, limits::kMaxExactLanes)) {
    return Error{Errc::kInvalidArgument, fmt::format("{} exact lanes in rows of {}", spec.exact_lanes, width),
                 "exact_lanes"};
  }
  Operation operation;
  operation.kind = kind;
  operation.detail = static_cast<uint32_t>(spec.codec) + (static_cast<uint32_t>(spec.exact_lanes) << 16);
  operation.shape_hash = hash_sizes(std::array{rows, width});
  operation.in = reinterpret_cast<const std::byte*>(in);
  operation.out = reinterpret_cast<std::byte*>(out);
  // One rank sends nothing, so it rounds nothing.
  operation.sum =
      WireRows::make(codec_entry(world_ == 1 ? Codec::kFloat32 : spec.codec), rows, width, spec.exact_lanes);
  return operation;
}

Result<Ticket> BlockCommunicator::begin_all_reduce(int64_t rows, int64_t width, const float* in, float* out,
                                                   const ReduceSpec& spec) {
  ASSIGN_OR_RETURN(Operation operation, make_sum(OpKind::kAllReduce, rows, width, in, out, spec));
  operation.sink = spec.sink;
  operation.sink_width = std::max<int64_t>(1, width);
  operation.sum = operation.sum.joined();
  operation.rows = operation.sum.rows;
  operation.row_bytes.fill(operation.sum.row_bytes());
  choose_algorithm(spec.codec, operation);
  return begin(operation);
}

void BlockCommunicator::choose_algorithm(Codec codec, Operation& operation) const {
  const int64_t bytes = operation.part_bytes(rank_);
  const SumAlgorithm* row = algorithms_ != nullptr ? algorithms_->find(codec, bytes) : nullptr;
  operation.two_shot = world_ > 2 && (row != nullptr ? row->two_shot : bytes > config_.two_shot_bytes);
  if (row != nullptr) operation.stage_bytes = std::min(row->stage_bytes, config_.stage_bytes);
}

Result<Ticket> BlockCommunicator::begin_reduce_scatter(int64_t rows, int64_t width, const float* in, float* out,
                                                       const ReduceSpec& spec) {
  if (spec.sink != nullptr) return Error{Errc::kInvalidArgument, "a reduce-scatter has no sink", "sink"};
  ASSIGN_OR_RETURN(Operation operation, make_sum(OpKind::kReduceScatter, rows, width, in, out, spec));
  operation.rows = round_up(rows, int64_t{world_});
  operation.row_bytes.fill(operation.sum.row_bytes());
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

Result<Ticket> BlockCommunicator::begin_send(int to, int64_t bytes, const void* data) {
  return begin_message(OpKind::kSend, to, data, nullptr, bytes);
}

Result<Ticket> BlockCommunicator::begin_recv(int from, int64_t bytes, void* data) {
  return begin_message(OpKind::kRecv, from, nullptr, data, bytes);
}

Result<Ticket> BlockCommunicator::begin_message(OpKind kind, int peer, const void* from, void* to, int64_t bytes) {
  if (peer < 0 || peer >= world_ || peer == rank_) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("rank {} has no messages for rank {} in a world of {}", rank_, peer, world_), "peer"};
  }
  if (!is_size(1, bytes)) return bad_size(op_name(kind));
  RETURN_IF_ERROR(block_health(block_));
  const int64_t start_ns = machine_now_ns();
  ASSIGN_OR_RETURN(const Ticket ticket, mail_.begin(kind, peer, from, to, bytes));
  RETURN_IF_ERROR(mail_.move());
  mail_.at(ticket).time_ns += machine_now_ns() - start_ns;
  return ticket;
}

}  // namespace krait::collectives
