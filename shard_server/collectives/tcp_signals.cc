#include "shard_server/collectives/tcp_signals.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/base/units.h"
#include "shard_server/collectives/operation.h"

namespace krait::collectives {
namespace {

// Consumed and not said: less than the slots, so that nobody waits for the word.
constexpr int64_t kUnsaidSteps = kBlockSlots / 2;
constexpr int64_t kUnsaidPieces = kPairSlots / 2;

/// The one word on a control connection.
struct LastWord final {
  uint32_t magic = kLastWordMagic;
  int32_t code = 0;
  std::array<char, 240> reason{};  // ends with 0

  static constexpr uint32_t kLastWordMagic = 0x4B524C01;
};

}  // namespace

TcpSignals::TcpSignals(Block block, const Options& options, TcpMesh mesh)
    : block_(block),
      rank_(options.rank),
      world_(options.world),
      spinning_(options.may_spin),
      clock_(clock_of(options)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    const auto index = static_cast<size_t>(peer);
    peers_[index] = std::make_unique<Peer>();
    peers_[index]->data = std::move(mesh.data[index]);
    peers_[index]->control = std::move(mesh.control[index]);
  }
  polled_.reserve(2 * static_cast<size_t>(world_) + 1);
}

TcpSignals::~TcpSignals() {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    // What is still unread would turn the close into a reset, which may overtake what was sent last.
    shutdown(peer->data.get(), SHUT_WR);
    while (recv(peer->data.get(), peer->buffer.data(), peer->buffer.size(), MSG_DONTWAIT) > 0) {
    }
  }
}

std::atomic<int64_t>& TcpSignals::counter_of(const Goal& goal, int peer) {
  if (goal.which == Counter::kSent) return block_.sent(peer, rank_);
  if (goal.which == Counter::kTaken) return block_.taken(rank_, peer);
  return block_.counter(goal.which, peer);
}

int TcpSignals::first_behind(const Goal& goal) {
  const bool is_pair = goal.peer != Goal::kEveryRank;
  for (int peer = is_pair ? goal.peer : 0; peer < (is_pair ? goal.peer + 1 : world_); ++peer) {
    if (counter_of(goal, peer).load(std::memory_order_relaxed) < goal.steps) return peer;
  }
  return -1;
}

void TcpSignals::publish(Counter which, const Operation& operation, uint32_t chunk) {
  const int64_t step = operation.first_step + chunk;
  block_.counter(which, rank_).store(step + 1, std::memory_order_relaxed);
  if (which == Counter::kConsumed) return;
  const std::byte* const stage = block_.stage(block_slot(step), rank_);
  for (int peer = 0; peer < world_; ++peer) {
    if (peer == rank_) continue;
    const Range range = operation.needed_range(which, rank_, peer, world_, chunk);
    Frame frame;
    frame.which = which;
    frame.step = step;
    frame.offset = range.begin_bytes;
    frame.bytes = range.bytes;
    frame.note = block_.note(block_slot(step), rank_);
    push(peer, frame, stage + range.begin_bytes);
  }
}

void TcpSignals::publish_sent(int to, int64_t pieces) {
  block_.sent(rank_, to).store(pieces, std::memory_order_relaxed);
  const uint32_t slot = pair_slot(pieces - 1);
  Frame frame{.which = Counter::kSent, .step = pieces - 1, .note = block_.pair_note(slot, rank_, to)};
  frame.bytes = piece_bytes(frame.note, block_.header().config);
  push(to, frame, block_.pair_stage(slot, rank_, to));
}

void TcpSignals::publish_taken(int from, int64_t pieces, bool is_last) {
  block_.taken(from, rank_).store(pieces, std::memory_order_relaxed);
  if (is_last || pieces - at(from).told_taken >= kUnsaidPieces) push(from, Frame{}, nullptr);
}

void TcpSignals::push(int to, const Frame& frame, const std::byte* payload) {
  Peer& peer = at(to);
  if (peer.queue_end - peer.queue_begin == peer.queue.size()) {
    // A peer that says it consumed what it was not sent yet.
    return fail(Errc::kProtocol, fmt::format("rank {} is ahead of what it was sent", to));
  }
  Outgoing& out = peer.queue[peer.queue_end++ % peer.queue.size()];
  out = {frame, payload, 0};
  out.frame.consumed = peer.told_consumed = consumed();
  out.frame.taken = peer.told_taken = block_.taken(to, rank_).load(std::memory_order_relaxed);
  send_queued(to);
}

void TcpSignals::send_queued(int to) {
  Peer& peer = at(to);
  while (peer.has_unsent()) {
    Outgoing& out = peer.queue[peer.queue_begin % peer.queue.size()];
    const auto frame_left = static_cast<size_t>(std::max<int64_t>(0, int64_t{sizeof(Frame)} - out.sent));
    const auto payload_sent = std::max<int64_t>(0, out.sent - int64_t{sizeof(Frame)});
    iovec parts[2] = {
        {reinterpret_cast<char*>(&out.frame) + sizeof(Frame) - frame_left, frame_left},
        {const_cast<std::byte*>(out.payload) + payload_sent, static_cast<size_t>(out.frame.bytes - payload_sent)}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(peer.data.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      // Gone. What it sent before may still be there to read; that nothing comes after it shows there.
      peer.queue_begin = peer.queue_end;
      return;
    }
    out.sent += sent;
    if (out.sent == int64_t{sizeof(Frame)} + out.frame.bytes) ++peer.queue_begin;
  }
}

void TcpSignals::tell_consumed() {
  for (int peer = 0; peer < world_; ++peer) {
    if (peer != rank_ && consumed() - at(peer).told_consumed >= kUnsaidSteps) push(peer, Frame{}, nullptr);
  }
}

void TcpSignals::read_data(int from) {
  Peer& peer = at(from);
  while (!peer.data_ended) {
    if (!take_read(from)) {
      peer.data_ended = true;
      return;
    }
    // A long payload goes where it belongs; what is short comes together with what follows it.
    const bool direct = peer.payload_left >= std::ssize(peer.buffer);
    std::byte* const to = direct ? peer.payload_to : peer.buffer.data() + peer.end;
    const size_t room = direct ? static_cast<size_t>(peer.payload_left) : peer.buffer.size() - peer.end;
    const ssize_t got = recv(peer.data.get(), to, room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      peer.data_ended = true;
      return;
    }
    if (direct) {
      peer.payload_to += got;
      peer.payload_left -= got;
    } else {
      peer.end += static_cast<size_t>(got);
    }
    if (static_cast<size_t>(got) < room) {
      if (!take_read(from)) peer.data_ended = true;
      return;
    }
  }
}

// Uses up what was read ahead. False: the peer broke the rules, and the group has failed.
bool TcpSignals::take_read(int from) {
  Peer& peer = at(from);
  while (true) {
    if (peer.in_payload) {
      const size_t bytes = std::min(static_cast<size_t>(peer.payload_left), peer.end - peer.begin);
      if (bytes > 0) std::memcpy(peer.payload_to, peer.buffer.data() + peer.begin, bytes);
      peer.begin += bytes;
      peer.payload_to += bytes;
      peer.payload_left -= static_cast<int64_t>(bytes);
      if (peer.payload_left > 0) break;
      end_frame(from);
      continue;
    }
    if (peer.end - peer.begin < sizeof(Frame)) break;
    std::memcpy(&peer.frame, peer.buffer.data() + peer.begin, sizeof(Frame));
    peer.begin += sizeof(Frame);
    if (!begin_frame(from)) {
      fail(Errc::kProtocol, fmt::format("rank {} sent what no rank sends", from));
      return false;
    }
  }
  std::memmove(peer.buffer.data(), peer.buffer.data() + peer.begin, peer.end - peer.begin);
  peer.end -= std::exchange(peer.begin, 0);
  return true;
}

// Whether the frame may come now.
bool TcpSignals::may_begin(int from, const Frame& frame) {
  const int64_t posted = block_.counter(Counter::kPosted, from).load(std::memory_order_relaxed);
  const int64_t mine = block_.counter(Counter::kPosted, rank_).load(std::memory_order_relaxed);
  const int64_t sent = block_.sent(from, rank_).load(std::memory_order_relaxed);
  const BlockConfig& config = block_.header().config;
  if (frame.magic != kFrameMagic || frame.consumed < 0 || frame.consumed > mine || frame.taken < 0 ||
      frame.taken > block_.sent(rank_, from).load(std::memory_order_relaxed)) {
    return false;
  }
  switch (frame.which) {
    case Counter::kPosted:
      if (frame.step != posted || frame.step >= consumed() + kBlockSlots) return false;
      break;
    case Counter::kReduced:
      if (frame.step < consumed() || frame.step >= posted) return false;
      break;
    case Counter::kConsumed:
      return frame.bytes == 0;
    case Counter::kSent:
      return frame.step == sent && sent < block_.taken(from, rank_).load(std::memory_order_relaxed) + kPairSlots &&
             frame.offset == 0 && frame.note.row_bytes >= 0 && frame.bytes == piece_bytes(frame.note, config);
    default:
      return false;
  }
  return frame.offset >= 0 && frame.offset <= config.stage_bytes && frame.bytes >= 0 &&
         frame.bytes <= config.stage_bytes - frame.offset;
}

// Then its payload has a place.
bool TcpSignals::begin_frame(int from) {
  Peer& peer = at(from);
  const Frame& frame = peer.frame;
  if (!may_begin(from, frame)) return false;
  peer.in_payload = true;
  peer.payload_left = frame.bytes;
  switch (frame.which) {
    case Counter::kConsumed:
      break;
    case Counter::kSent:
      peer.payload_to = block_.pair_stage(pair_slot(frame.step), from, rank_);
      break;
    default:
      peer.payload_to = block_.stage(block_slot(frame.step), from) + frame.offset;
  }
  return true;
}

void TcpSignals::end_frame(int from) {
  Peer& peer = at(from);
  const Frame& frame = peer.frame;
  peer.in_payload = false;
  const auto move_to = [&](Counter which, int64_t steps) {
    std::atomic<int64_t>& counter = counter_of(Goal{which}, from);
    if (counter.load(std::memory_order_relaxed) < steps) counter.store(steps, std::memory_order_relaxed);
  };
  move_to(Counter::kConsumed, frame.consumed);
  move_to(Counter::kTaken, frame.taken);
  if (frame.which == Counter::kConsumed) return;
  if (frame.which == Counter::kPosted) block_.note(block_slot(frame.step), from) = frame.note;
  if (frame.which == Counter::kSent) block_.pair_note(pair_slot(frame.step), from, rank_) = frame.note;
  move_to(frame.which, frame.step + 1);
}

void TcpSignals::read_control(int from) {
  Peer& peer = at(from);
  LastWord word;
  const ssize_t got = recv(peer.control.get(), &word, sizeof word, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  peer.control_ended = true;
  if (got != sizeof word || word.magic != LastWord::kLastWordMagic) return;
  fail_block(block_, from, code_from_wire(word.code),
             std::string_view(word.reason.data(), strnlen(word.reason.data(), word.reason.size())));
}

void TcpSignals::fail(Errc code, std::string_view reason) {
  if (!fail_block(block_, rank_, code, reason)) return;
  LastWord word;
  word.code = static_cast<int32_t>(code);
  std::memcpy(word.reason.data(), reason.data(), std::min(reason.size(), word.reason.size() - 1));
  // Nothing else was ever sent there, so there is room for it.
  for (const auto& peer : peers_) {
    if (peer != nullptr) send(peer->control.get(), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  const uint64_t once = 1;
  [[maybe_unused]] const ssize_t written = write(bell_.get(), &once, sizeof once);
}

}  // namespace krait::collectives
