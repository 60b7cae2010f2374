// Signals between hosts: each rank has a block of its own, and what a rank publishes travels to the others' blocks, the
// counter together with the bytes that it speaks for. So the algorithm over it is the one of a shared block, and the
// bits are the same.
//
// There is no thread: the rank's own moves bytes, when it publishes and while it waits. A slot of the receiver's block
// is free before its sender may write to it again, so nothing is buffered beyond the block but what the kernel holds. A
// rank says that it has consumed steps together with what it posts, or, while it waits, once two of them are unsaid.
#pragma once

#include <poll.h>

#include <array>
#include <memory>
#include <vector>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/signals.h"
#include "shard_server/collectives/tcp_mesh.h"

namespace krait::collectives {

class TcpSignals final : public Signals {
 public:
  /// What travels: this, then `bytes` of the sender's stage from `offset` on.
  struct Frame final {
    uint32_t magic = kFrameMagic;
    Counter which = Counter::kConsumed;
    int64_t step = 0;
    int64_t consumed = 0;  // the sender's counter
    int64_t taken = 0;     // the same, of pieces from who gets the frame
    int64_t offset = 0;
    int64_t bytes = 0;
    StepNote note;
  };
  static constexpr uint32_t kFrameMagic = 0x4B524603;  // "KRF" and the format's version

  /// `block` is this rank's own and outlives the object.
  TcpSignals(Block block, const Options& options, TcpMesh mesh);
  ~TcpSignals() override;

  void publish(Counter which, const Operation& operation, uint32_t chunk) override;
  void publish_sent(int to, int64_t pieces) override;
  void publish_taken(int from, int64_t pieces, bool is_last) override;
  Status wait(std::span<const Goal> goals, int64_t deadline_ns) override;
  void move() override { poll_once(0); }
  Status flush(int to, int64_t deadline_ns) override;
  void fail(Errc code, std::string_view reason) override;

 private:
  struct Outgoing final {
    Frame frame;
    const std::byte* payload = nullptr;  // in the stage, which stays until all have consumed it
    int64_t sent = 0;                    // of frame and payload
  };
  struct Peer final {
    Fd data, control;
    bool data_ended = false;     // nothing more will come
    bool control_ended = false;  // the same
    // Frames that the kernel has not taken yet.
    std::array<Outgoing, limits::kMaxTcpFrames> queue;
    uint32_t queue_begin = 0, queue_end = 0;
    int64_t told_consumed = 0;
    int64_t told_taken = 0;
    // What was read ahead, and the frame whose payload comes next.
    std::array<std::byte, limits::kTcpReceiveBytes> buffer;
    size_t begin = 0, end = 0;
    Frame frame;
    bool in_payload = false;
    std::byte* payload_to = nullptr;
    int64_t payload_left = 0;

    bool has_unsent() const { return queue_begin != queue_end; }
  };

  Peer& at(int peer) { return *peers_[static_cast<size_t>(peer)]; }
  int first_behind(const Goal& goal) override;
  std::atomic<int64_t>& counter_of(const Goal& goal, int peer);
  int64_t consumed() { return block_.counter(Counter::kConsumed, rank_).load(std::memory_order_relaxed); }
  void push(int to, const Frame& frame, const std::byte* payload);
  void send_queued(int to);
  void tell_consumed();
  void read_data(int from);
  bool take_read(int from);
  bool begin_frame(int from);
  void end_frame(int from);
  void read_control(int from);
  bool may_begin(int from, const Frame& frame);
  Result<bool> look(std::span<const Goal> goals, int64_t deadline_ns);
  bool spin(std::span<const Goal> goals, int64_t start_ns);
  template <class Done>
  Status move_until(const Done& done, int64_t deadline_ns);
  void poll_once(int64_t most_ns);

  const Block block_;
  const int rank_;
  const int world_;
  AdaptiveSpin spinning_;
  const Clock& clock_;
  std::array<std::unique_ptr<Peer>, limits::kMaxWorld> peers_;  // this rank's own is empty
  Fd bell_;                                                     // an event: another thread failed the group
  std::vector<pollfd> polled_;
};

}  // namespace krait::collectives
