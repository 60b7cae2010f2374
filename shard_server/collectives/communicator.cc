#include "shard_server/collectives/communicator.h"

#include <algorithm>

#include "common/base/check.h"

namespace krait::collectives {

std::string_view op_name(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kSend:
      return "send";
    case OpKind::kRecv:
      return "recv";
  }
  // A number that no rank of this version writes: a note in the block of a rank that disagrees about everything.
  return "unknown";
}

Stripe stripe_of(int rank, int world, int64_t count) {
  const int64_t share = ceil_div(count, world);
  const int64_t begin = std::min(count, share * rank);
  return {begin, std::min(count - begin, share)};
}

void add_statistics(const Statistics& more, Statistics& to) {
  for (size_t op = 0; op < to.size(); ++op) {
    to[op].operations += more[op].operations;
    to[op].contributed_bytes += more[op].contributed_bytes;
    to[op].time_ns += more[op].time_ns;
    to[op].wait_ns += more[op].wait_ns;
  }
}

Statistics Communicator::statistics() const {
  Statistics all{};
  for (const Statistics& of_codec : codec_statistics())
    add_statistics(of_codec, all);
  return all;
}

Status Communicator::all_reduce(int64_t rows, int64_t width, const float* in, float* out, const ReduceSpec& spec) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_all_reduce(rows, width, in, out, spec));
  return finish(ticket);
}

Status Communicator::reduce_scatter(int64_t rows, int64_t width, const float* in, float* out, const ReduceSpec& spec) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_reduce_scatter(rows, width, in, out, spec));
  return finish(ticket);
}

Status Communicator::all_gather(int64_t bytes_per_rank, const void* in, void* out) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_all_gather(bytes_per_rank, in, out));
  return finish(ticket);
}

Status Communicator::all_gather_rows(int64_t rows, std::span<const int64_t> row_bytes, const void* in, void* out) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_all_gather_rows(rows, row_bytes, in, out));
  return finish(ticket);
}

Status Communicator::broadcast(int root, int64_t bytes, void* data) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_broadcast(root, bytes, data));
  return finish(ticket);
}

Status Communicator::barrier() {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_barrier());
  return finish(ticket);
}

Status Communicator::send(int to, int64_t bytes, const void* data) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_send(to, bytes, data));
  return finish(ticket);
}

Status Communicator::recv(int from, int64_t bytes, void* data) {
  ASSIGN_OR_RETURN(const Ticket ticket, begin_recv(from, bytes, data));
  return finish(ticket);
}

}  // namespace krait::collectives
