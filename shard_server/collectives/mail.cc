#include "shard_server/collectives/mail.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/units.h"
#include "shard_server/collectives/operation.h"

namespace krait::collectives {
namespace {

constexpr bool is_sending(int queue) {
  return queue % 2 == 0;
}

}  // namespace

Mail::Mail(Block block, int rank, Signals& signals)
    : block_(block), rank_(rank), piece_bytes_(block.header().config.piece_bytes()), signals_(signals) {}

Result<Ticket> Mail::begin(OpKind kind, int peer, const void* from, void* to, int64_t bytes) {
  const int index = 2 * peer + (kind == OpKind::kSend ? 0 : 1);
  Queue& queue = queues_[static_cast<size_t>(index)];
  if (queue.next - queue.first_open == uint32_t{limits::kMaxPairMessages}) {
    return Error{
        Errc::kResourceExhausted,
        fmt::format("{} messages are in flight already between ranks {} and {}", limits::kMaxPairMessages, rank_, peer),
        ""};
  }
  Message message;
  message.from = static_cast<const std::byte*>(from);
  message.to = static_cast<std::byte*>(to);
  message.bytes = bytes;
  message.pieces = static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(bytes, piece_bytes_)));
  message.is_open = true;
  queue.at(queue.next) = message;
  ++moving_;
  return Ticket{queue.next++, index};
}

Mail::Message& Mail::at(Ticket ticket) {
  CHECK_LT(ticket.queue, std::ssize(queues_));
  Queue& queue = queues_[static_cast<size_t>(ticket.queue)];
  CHECK(ticket.sequence - queue.first_open < queue.next - queue.first_open);
  Message& message = queue.at(ticket.sequence);
  CHECK(message.is_open);
  return message;
}

void Mail::close(Ticket ticket) {
  at(ticket).is_open = false;
  Queue& queue = queues_[static_cast<size_t>(ticket.queue)];
  while (queue.first_open != queue.next && !queue.at(queue.first_open).is_open)
    ++queue.first_open;
}

StepNote Mail::note(const Queue& queue, const Message& message) const {
  StepNote note;
  note.kind = OpKind::kSend;
  note.sequence = queue.moving;
  note.chunk = message.moved;
  note.rows = 1;
  note.row_bytes = message.bytes;
  return note;
}

Goal Mail::goal(int index) const {
  const int64_t pieces = queues_[static_cast<size_t>(index)].pieces + 1;
  return is_sending(index) ? Goal{Counter::kTaken, pieces - kPairSlots, index / 2}
                           : Goal{Counter::kSent, pieces, index / 2};
}

Result<bool> Mail::move() {
  bool moved = false;
  for (int index = 0; index < 2 * block_.world(); ++index) {
    Queue& queue = queues_[static_cast<size_t>(index)];
    while (queue.moving != queue.next && signals_.reached(goal(index))) {
      Message& message = queue.at(queue.moving);
      if (is_sending(index)) {
        send(index, message);
      } else {
        RETURN_IF_ERROR(take(index, message));
      }
      moved = true;
      if (++message.moved < message.pieces) continue;
      ++queue.moving;
      --moving_;
    }
  }
  return moved;
}

void Mail::send(int index, const Message& message) {
  Queue& queue = queues_[static_cast<size_t>(index)];
  const int to = index / 2;
  const uint32_t slot = pair_slot(queue.pieces);
  StepNote& mine = block_.pair_note(slot, rank_, to);
  mine = note(queue, message);
  copy_bytes(block_.pair_stage(slot, rank_, to), message.from + int64_t{message.moved} * piece_bytes_,
             piece_bytes(mine, block_.header().config));
  signals_.publish_sent(to, ++queue.pieces);
}

Status Mail::take(int index, const Message& message) {
  Queue& queue = queues_[static_cast<size_t>(index)];
  const int from = index / 2;
  const uint32_t slot = pair_slot(queue.pieces);
  const StepNote& theirs = block_.pair_note(slot, from, rank_);
  const StepNote expected = note(queue, message);
  if (theirs != expected) {
    signals_.fail(Errc::kProtocol,
                  fmt::format("expects {} from rank {}, which sent {}", describe(expected), from, describe(theirs)));
    return block_health(block_);
  }
  copy_bytes(message.to + int64_t{message.moved} * piece_bytes_, block_.pair_stage(slot, from, rank_),
             piece_bytes(theirs, block_.header().config));
  signals_.publish_taken(from, ++queue.pieces, message.moved + 1 == message.pieces);
  return {};
}

size_t Mail::goals(Ticket ticket, std::span<Goal> goals) const {
  size_t count = 0;
  for (int index = 0; index < 2 * block_.world(); ++index) {
    const Queue& queue = queues_[static_cast<size_t>(index)];
    if (queue.moving == queue.next) continue;
    goals[count++] = goal(index);
    if (index == ticket.queue) std::swap(goals[0], goals[count - 1]);
  }
  return count;
}

}  // namespace krait::collectives
