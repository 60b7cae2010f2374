// The Communicator over a block, for threads, processes and hosts alike: one algorithm, so one set of bits.
//
// Every operation is cut into steps that all ranks number alike. In step s a rank copies its chunk into its part of
// slot s % kBlockSlots and publishes "posted s + 1"; once all have, it takes the result in and publishes "consumed s +
// 1", after which the slot may be used again. A large sum of three ranks and more goes in two shots: each rank reduces
// its stripe, puts the sum where its own part was, publishes "reduced s + 1", and reads the others' stripes.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/mail.h"
#include "shard_server/collectives/operation.h"
#include "shard_server/collectives/signals.h"
#include "shard_server/collectives/sum_table.h"

namespace krait::collectives {

class BlockCommunicator final : public Communicator {
 public:
  /// `memory` keeps the block alive, which all ranks share or, with signals that carry it between them, each has a copy
  /// of. `transport` is a string literal.
  BlockCommunicator(const Options& options, std::string_view transport, std::shared_ptr<void> memory, Block block,
                    std::unique_ptr<Signals> signals);
  /// Operations still in flight can never end on the other ranks: the group fails.
  ~BlockCommunicator() override;
  BlockCommunicator(const BlockCommunicator&) = delete;
  BlockCommunicator& operator=(const BlockCommunicator&) = delete;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  uint64_t epoch() const override { return block_.header().config.epoch; }
  std::string_view transport() const override { return transport_; }

  Result<Ticket> begin_all_reduce(int64_t rows, int64_t width, const float* in, float* out,
                                  const ReduceSpec& spec) override;
  Result<Ticket> begin_reduce_scatter(int64_t rows, int64_t width, const float* in, float* out,
                                      const ReduceSpec& spec) override;
  Result<Ticket> begin_all_gather(int64_t bytes_per_rank, const void* in, void* out) override;
  Result<Ticket> begin_all_gather_rows(int64_t rows, std::span<const int64_t> row_bytes, const void* in,
                                       void* out) override;
  Result<Ticket> begin_broadcast(int root, int64_t bytes, void* data) override;
  Result<Ticket> begin_barrier() override;
  Result<Ticket> begin_send(int to, int64_t bytes, const void* data) override;
  Result<Ticket> begin_recv(int from, int64_t bytes, void* data) override;
  Status progress() override;
  Status finish(Ticket ticket) override;
  void set_deadline_ns(int64_t deadline_ns) override;
  void abort(std::string_view reason) override;
  Status health() const override;
  CodecStatistics codec_statistics() const override;

 private:
  struct OpCounters final {
    std::atomic<int64_t> operations{0};
    std::atomic<int64_t> contributed_bytes{0};
    std::atomic<int64_t> time_ns{0};
    std::atomic<int64_t> wait_ns{0};
  };

  Result<Operation> make_sum(OpKind kind, int64_t rows, int64_t width, const float* in, float* out,
                             const ReduceSpec& spec);
  Result<Ticket> begin_message(OpKind kind, int peer, const void* from, void* to, int64_t bytes);
  void choose_algorithm(Codec codec, Operation& operation) const;
  Result<Ticket> begin(Operation operation);
  Operation& at(uint32_t sequence) { return operations_[sequence % limits::kMaxCollectiveTickets]; }
  Operation& at(Ticket ticket);
  bool post_what_fits();
  void post(const Operation& operation, uint32_t chunk);
  Goal goal(const Operation& operation) const;
  Result<bool> move(uint32_t end);
  Status go_on(Operation& operation);
  Status finish_message(Ticket ticket, int64_t deadline_ns);
  Status wait(Ticket ticket, int64_t& wait_ns, int64_t deadline_ns);
  Status check_notes(const Operation& operation, uint32_t chunk);
  bool all_reduce_chunk(Operation& operation, uint32_t chunk);
  void scatter_chunk(const Operation& operation, uint32_t chunk);
  void gather_chunk(const Operation& operation, uint32_t chunk);
  void broadcast_chunk(const Operation& operation, uint32_t chunk);
  void count(OpKind kind, Codec codec, int64_t bytes, int64_t time_ns, int64_t wait_ns);

  const std::string_view transport_;
  const std::shared_ptr<void> memory_;
  const Block block_;
  const BlockConfig config_;
  const std::shared_ptr<const SumTable> algorithms_;  // may be null
  const int rank_;
  const int world_;
  const int64_t timeout_ns_;
  const Clock& clock_;
  const kernels::CpuPath path_;  // of the codecs, whose bits are the same on each
  const std::unique_ptr<Signals> signals_;

  // Operations by sequence number, all begun and not yet asked for by finish() in [first_open_, next_).
  std::array<Operation, limits::kMaxCollectiveTickets> operations_;
  std::array<bool, limits::kMaxCollectiveTickets> is_open_{};
  uint32_t next_ = 0;        // the next operation's sequence number
  uint32_t first_open_ = 0;  // the oldest operation whose ticket is not finished
  uint32_t running_ = 0;     // the oldest operation that has not ended
  uint32_t posting_ = 0;     // the oldest operation with chunks to post
  int64_t next_step_ = 0;    // the next operation's first step
  std::atomic<int64_t> deadline_ns_{kNoDeadline};
  Mail mail_;
  std::array<std::array<OpCounters, kOpKinds>, kCodecCount> counters_;

  static constexpr int64_t kNoDeadline = -1;
};

}  // namespace krait::collectives
