// The memory that the ranks of a group share: counters, signals and staging buffers. It knows nothing of where it lies
// (heap for threads, a segment for processes) nor of the operations that run in it. Raw memory plus
// initialize_block() makes one; every field that two ranks touch at a time is a lock-free 32-bit atomic.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "common/base/limits.h"
#include "common/base/result.h"
#include "shard_server/collectives/communicator.h"

namespace krait::collectives {

/// Steps that may be on the way at a time.
inline constexpr uint32_t kBlockSlots = 4;

/// The slot of a step.
constexpr uint32_t block_slot(int64_t step) {
  return static_cast<uint32_t>(step % kBlockSlots);
}

/// Pieces of messages from one rank to another that may be on the way at a time.
inline constexpr uint32_t kPairSlots = 8;

/// The slot of a piece.
constexpr uint32_t pair_slot(int64_t piece) {
  return static_cast<uint32_t>(piece % kPairSlots);
}

/// memcpy may not be given null pointers, not even for nothing; empty operations may.
inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

/// What all ranks must agree on before they share a block.
struct BlockConfig final {
  uint64_t epoch = 0;
  uint32_t world = 1;
  ReduceOrder order = ReduceOrder::kRankOrder;
  int64_t stage_bytes = 0;     // of one rank's part in one slot, a multiple of 64
  int64_t two_shot_bytes = 0;  // parts above this are reduced in stripes
  uint64_t algorithms = 0;     // digest of their table

  int64_t piece_bytes() const { return std::min(stage_bytes, limits::kMaxPairPieceBytes); }  // of a message

  friend bool operator==(const BlockConfig&, const BlockConfig&) = default;
};

/// kInvalidArgument for options that no group can be made from.
Status validate_options(const Options& options);
/// The block that valid `options` ask for.
BlockConfig block_config(const Options& options);
int64_t block_bytes(const BlockConfig& config);
/// The options' clock, or the steady one.
const Clock& clock_of(const Options& options);

/// What a rank says about a step when it posts its part; a step counts only if all ranks say the same. With a message's
/// piece it says what the receiver must expect: its number among the messages of the two ranks, and its size.
struct StepNote final {
  OpKind kind = OpKind::kBarrier;
  uint32_t sequence = 0;  // of the operation
  uint32_t chunk = 0;     // of the operation
  uint32_t detail = 0;    // codec and exact lanes of a sum, root of a broadcast
  int64_t rows = 0;
  int64_t row_bytes = 0;
  uint64_t shape_hash = 0;  // of the ranks' sizes, where they differ

  friend bool operator==(const StepNote&, const StepNote&) = default;
};

/// Of a message whose piece has this note.
inline int64_t piece_bytes(const StepNote& note, const BlockConfig& config) {
  return std::clamp<int64_t>(note.row_bytes - int64_t{note.chunk} * config.piece_bytes(), 0, config.piece_bytes());
}

// A counter counts the steps that a rank has brought to some point, or the pieces of messages between two ranks. A line
// of its own for each (two, because neighbours are fetched in pairs): one rank writes it, the others poll it.
enum class Counter : int {
  kPosted,
  kReduced,
  kConsumed,
  kSent,   // from one rank to another; the sender writes it
  kTaken,  // of those, taken in; the receiver writes it
};
inline constexpr int kCounters = 3;  // of each rank
struct alignas(128) CounterLine final {
  std::atomic<int64_t> steps{0};
};
struct PairLines final {
  CounterLine sent;
  CounterLine taken;
};
struct alignas(128) SleepLine final {
  std::atomic<uint32_t> sleeping{0};  // this rank is about to sleep or sleeps: ring
  std::atomic<uint32_t> bell{0};      // futex word
};
struct RankLines final {
  std::array<CounterLine, kCounters> counters;
  SleepLine sleep;
};

/// The first failure of the group. `state` is claimed by one rank, which then writes the rest and publishes it.
struct alignas(128) FailureLine final {
  std::atomic<uint32_t> state{0};  // 0 none, 1 claimed, 2 written
  int32_t code = 0;                // Errc
  int32_t rank = 0;
  std::array<char, 240> reason{};  // ends with 0
};

struct BlockHeader final {
  std::atomic<uint32_t> ready{0};  // kBlockReady when the rest may be read
  BlockConfig config;
  std::atomic<uint32_t> attached{0};  // one bit a rank
  FailureLine failure;
  std::array<RankLines, limits::kMaxWorld> ranks;
  std::array<PairLines, limits::kMaxWorld * limits::kMaxWorld> pairs;  // [from][to]
};
inline constexpr uint32_t kBlockReady = 0x4B524103;  // "KRA" and the layout's version
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);
static_assert(std::atomic<int64_t>::is_always_lock_free && sizeof(std::atomic<int64_t>) == 8);

/// A view of a block; cheap to copy, owns nothing.
class Block final {
 public:
  explicit Block(std::byte* base) : base_(base) {}

  BlockHeader& header() const { return *reinterpret_cast<BlockHeader*>(base_); }
  RankLines& lines(int rank) const { return header().ranks[static_cast<size_t>(rank)]; }
  std::atomic<int64_t>& counter(Counter which, int rank) const {
    return lines(rank).counters[static_cast<size_t>(which)].steps;
  }
  std::atomic<int64_t>& sent(int from, int to) const { return pair(from, to).sent.steps; }
  std::atomic<int64_t>& taken(int from, int to) const { return pair(from, to).taken.steps; }
  int world() const { return static_cast<int>(header().config.world); }

  StepNote& note(uint32_t slot, int rank) const { return *reinterpret_cast<StepNote*>(part(slot, rank)); }
  std::byte* stage(uint32_t slot, int rank) const { return part(slot, rank) + kNoteBytes; }

  // The same of a message's piece.
  StepNote& pair_note(uint32_t slot, int from, int to) const {
    return *reinterpret_cast<StepNote*>(pair_part(slot, from, to));
  }
  std::byte* pair_stage(uint32_t slot, int from, int to) const { return pair_part(slot, from, to) + kNoteBytes; }

 private:
  friend int64_t block_bytes(const BlockConfig& config);
  static constexpr int64_t kNoteBytes = 64;
  static_assert(sizeof(StepNote) <= kNoteBytes);

  PairLines& pair(int from, int to) const { return header().pairs[static_cast<size_t>(from * limits::kMaxWorld + to)]; }
  // A rank's part in a slot: its note, then its data.
  std::byte* part(uint32_t slot, int rank) const;
  std::byte* pair_part(uint32_t slot, int from, int to) const;

  std::byte* base_;
};

/// Makes a block of memory that is block_bytes() long and aligned to 128. Staging buffers are not touched.
void initialize_block(std::byte* memory, const BlockConfig& config);

/// A block of this process alone. kResourceExhausted if there is no memory for it.
Result<std::shared_ptr<std::byte>> allocate_block(const BlockConfig& config);

/// Marks `rank` as there and waits until all are. kProtocol if `rank` is there already or `config` is not the block's
/// (the group fails with it); kDeadlineExceeded at `deadline_ns` of `clock`; kUnavailable once `cancel`, if any, is
/// set.
Status attach_and_wait(Block block, const BlockConfig& config, int rank, const Clock& clock, int64_t deadline_ns,
                       const std::atomic<bool>* cancel);

/// The group's first failure, or OK.
Status block_health(Block block);
/// Fails the group unless it has failed already, and wakes every rank of the block. Whether it was the first to.
bool fail_block(Block block, int rank, Errc code, std::string_view reason);

}  // namespace krait::collectives
