// The messages between this rank and each other one. From one rank to another there is a ring of kPairSlots pieces in
// the block, apart from the slots of the steps: the sender fills slot p % kPairSlots with piece p and publishes "sent p
// + 1", the receiver takes it and publishes "taken p + 1". So two ranks need nobody else, and neither waits for the
// other until the ring is full or empty.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/signals.h"

namespace krait::collectives {

class Mail final {
 public:
  /// Goals that goals() gives at most.
  static constexpr int kMostGoals = 2 * limits::kMaxWorld;

  struct Message final {
    const std::byte* from = nullptr;  // of one to send
    std::byte* to = nullptr;          // of one to receive
    int64_t bytes = 0;
    uint32_t pieces = 0;  // at least one: an empty message still arrives
    uint32_t moved = 0;   // pieces sent or taken
    bool is_open = false;
    int64_t time_ns = 0;
    int64_t wait_ns = 0;

    bool has_moved() const { return moved == pieces; }
  };

  /// `signals` outlives the object.
  Mail(Block block, int rank, Signals& signals);

  /// `kind` is kSend (`from` is read) or kRecv (`to` is written). kResourceExhausted where too many are in flight.
  Result<Ticket> begin(OpKind kind, int peer, const void* from, void* to, int64_t bytes);

  /// Whether a message is in flight whose bytes have not all moved.
  bool is_moving() const { return moving_ > 0; }
  /// Sends and takes all pieces that it can without waiting; whether there were any. A piece of another message than
  /// the one expected fails the group with kProtocol.
  Result<bool> move();

  /// The message of a ticket that is not finished; a programmer's error otherwise.
  Message& at(Ticket ticket);
  static OpKind kind(Ticket ticket) { return ticket.queue % 2 == 0 ? OpKind::kSend : OpKind::kRecv; }
  static int peer(Ticket ticket) { return ticket.queue / 2; }
  void close(Ticket ticket);

  /// What the messages that are not done wait for, that of `ticket` first if it is one of them; how many.
  size_t goals(Ticket ticket, std::span<Goal> goals) const;

 private:
  // The messages one way between this rank and another, by number.
  struct Queue final {
    std::array<Message, limits::kMaxPairMessages> messages;
    uint32_t first_open = 0;  // the oldest whose ticket is not finished
    uint32_t moving = 0;      // the oldest with pieces to move
    uint32_t next = 0;
    int64_t pieces = 0;  // moved, of all messages

    Message& at(uint32_t number) { return messages[number % limits::kMaxPairMessages]; }
  };

  Goal goal(int queue) const;
  Status take(int queue, const Message& message);
  void send(int queue, const Message& message);
  StepNote note(const Queue& queue, const Message& message) const;

  const Block block_;
  const int rank_;
  const int64_t piece_bytes_;
  Signals& signals_;
  std::array<Queue, 2 * limits::kMaxWorld> queues_;  // [peer][sent, received]
  int moving_ = 0;
};

}  // namespace krait::collectives
