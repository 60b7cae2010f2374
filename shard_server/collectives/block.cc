#include "shard_server/collectives/block.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "common/base/units.h"
#include "shard_server/collectives/signals.h"
#include "shard_server/collectives/sum_table.h"

namespace krait::collectives {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kMinStageBytes = 4 * kKiB;
constexpr int kFailureTries = 10'000;
// Ranks come within milliseconds of each other or not at all; while a group forms, nobody is in a hurry.
constexpr auto kAttachPoll = std::chrono::microseconds(500);

int64_t header_bytes() {
  return round_up(static_cast<int64_t>(sizeof(BlockHeader)), kLineBytes);
}

bool is_name(std::string_view name) {
  constexpr size_t kMaxNameBytes = 64;
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

Error invalid(std::string message, std::string param) {
  return Error{Errc::kInvalidArgument, std::move(message), std::move(param)};
}

}  // namespace

Status validate_options(const Options& options) {
  if (!is_name(options.name)) {
    return invalid("a group's name has 1 to 64 of A-Z a-z 0-9 . _ - and not \"" + options.name + "\"", "name");
  }
  if (options.world < 1 || options.world > limits::kMaxWorld) {
    return invalid(fmt::format("a group has 1 to {} ranks, not {}", limits::kMaxWorld, options.world), "world");
  }
  if (options.rank < 0 || options.rank >= options.world) {
    return invalid(fmt::format("rank {} is not in a world of {}", options.rank, options.world), "rank");
  }
  if (options.order == ReduceOrder::kTree && (options.world & (options.world - 1)) != 0) {
    return invalid(fmt::format("tree order needs a world of 1, 2, 4 or 8, not {}", options.world), "order");
  }
  if (options.max_rows < 1 || options.max_width < 1) return invalid("the largest message is empty", "max_rows");
  if (options.stage_bytes < 1 || options.stage_bytes > limits::kMaxCollectiveStageBytes) {
    return invalid(
        fmt::format("stage of {} bytes is not within 1..{}", options.stage_bytes, limits::kMaxCollectiveStageBytes),
        "stage_bytes");
  }
  if (options.two_shot_bytes < 0) return invalid("two_shot_bytes is negative", "two_shot_bytes");
  if (options.timeout_ns <= 0) return invalid("a timeout is above zero", "timeout_ns");
  return {};
}

BlockConfig block_config(const Options& options) {
  const int64_t cap = round_up(std::max(options.stage_bytes, limits::kMinCollectiveStageBytes), kLineBytes);
  const int64_t width_bytes = std::min<int64_t>(options.max_width, cap) * static_cast<int64_t>(sizeof(float));
  const int64_t message = std::min(options.max_rows, ceil_div(cap, width_bytes)) * width_bytes;
  BlockConfig config;
  config.epoch = options.epoch;
  config.world = static_cast<uint32_t>(options.world);
  config.order = options.order;
  config.stage_bytes = std::min(round_up(std::max(message, kMinStageBytes), kLineBytes), cap);
  config.two_shot_bytes = options.two_shot_bytes;
  if (options.algorithms != nullptr) config.algorithms = options.algorithms->digest();
  return config;
}

int64_t block_bytes(const BlockConfig& config) {
  const int64_t parts = int64_t{kBlockSlots} * config.world;
  const int64_t pieces = int64_t{kPairSlots} * config.world * (config.world - 1);
  return header_bytes() + parts * (Block::kNoteBytes + config.stage_bytes) +
         pieces * (Block::kNoteBytes + config.piece_bytes());
}

const Clock& clock_of(const Options& options) {
  static const SteadyClock steady;
  return options.clock != nullptr ? *options.clock : steady;
}

std::byte* Block::part(uint32_t slot, int rank) const {
  const BlockConfig& config = header().config;
  const int64_t index = int64_t{slot} * config.world + rank;
  return base_ + header_bytes() + index * (kNoteBytes + config.stage_bytes);
}

std::byte* Block::pair_part(uint32_t slot, int from, int to) const {
  const BlockConfig& config = header().config;
  // Nobody writes to itself.
  const int64_t pair = int64_t{from} * (config.world - 1) + (to < from ? to : to - 1);
  const int64_t index = pair * kPairSlots + slot;
  return part(kBlockSlots, 0) + index * (kNoteBytes + config.piece_bytes());
}

void initialize_block(std::byte* memory, const BlockConfig& config) {
  CHECK_EQ(reinterpret_cast<uintptr_t>(memory) % alignof(BlockHeader), 0u);
  auto* header = new (memory) BlockHeader;
  header->config = config;
  const Block block(memory);
  for (int rank = 0; rank < block.world(); ++rank) {
    for (uint32_t slot = 0; slot < kBlockSlots; ++slot)
      new (&block.note(slot, rank)) StepNote;
    for (int to = 0; to < block.world(); ++to) {
      for (uint32_t slot = 0; to != rank && slot < kPairSlots; ++slot)
        new (&block.pair_note(slot, rank, to)) StepNote;
    }
  }
  header->ready.store(kBlockReady, std::memory_order_release);
}

Result<std::shared_ptr<std::byte>> allocate_block(const BlockConfig& config) {
  constexpr int64_t kPageBytes = 4096;
  const int64_t bytes = round_up(block_bytes(config), kPageBytes);
  // Not touched here: pages come when ranks first use them.
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, static_cast<size_t>(bytes)));
  if (memory == nullptr) {
    return Error{Errc::kResourceExhausted, fmt::format("no memory for a group's {} bytes", bytes), ""};
  }
  initialize_block(memory, config);
  return std::shared_ptr<std::byte>(memory, [](std::byte* block) { std::free(block); });
}

Status attach_and_wait(Block block, const BlockConfig& config, int rank, const Clock& clock, int64_t deadline_ns,
                       const std::atomic<bool>* cancel) {
  BlockHeader& header = block.header();
  if (header.config != config) {
    fail_block(block, rank, Errc::kProtocol, "its options are not those of the group's first rank");
    return block_health(block);
  }
  const uint32_t mine = uint32_t{1} << rank;
  if ((header.attached.fetch_or(mine, std::memory_order_acq_rel) & mine) != 0) {
    fail_block(block, rank, Errc::kProtocol, "this rank is in the group twice");
    return block_health(block);
  }
  const uint32_t all = (uint32_t{1} << config.world) - 1;
  while (header.attached.load(std::memory_order_acquire) != all) {
    if (cancel != nullptr && *cancel)
      fail_block(block, rank, Errc::kUnavailable, "the group was given up while it formed");
    RETURN_IF_ERROR(block_health(block));
    if (clock.now_ns() >= deadline_ns) {
      const uint32_t missing = all & ~header.attached.load(std::memory_order_acquire);
      fail_block(block, rank, Errc::kDeadlineExceeded,
                 fmt::format("missing ranks when the group formed: {:#x} (bits)", missing));
      return block_health(block);
    }
    std::this_thread::sleep_for(kAttachPoll);
  }
  return block_health(block);
}

Status block_health(Block block) {
  FailureLine& failure = block.header().failure;
  uint32_t state = failure.state.load(std::memory_order_acquire);
  if (state == 0) [[likely]]
    return {};
  // Whoever claimed the failure writes it within a moment, unless it was killed in that moment.
  for (int tries = 0; state == 1 && tries < kFailureTries; ++tries) {
    std::this_thread::yield();
    state = failure.state.load(std::memory_order_acquire);
  }
  if (state == 1) return Error{Errc::kUnavailable, "the group has failed", ""};
  return Error{static_cast<Errc>(failure.code), fmt::format("rank {}: {}", failure.rank, failure.reason.data()), ""};
}

bool fail_block(Block block, int rank, Errc code, std::string_view reason) {
  FailureLine& failure = block.header().failure;
  uint32_t none = 0;
  if (!failure.state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return false;
  failure.code = static_cast<int32_t>(code);
  failure.rank = rank;
  const size_t length = std::min(reason.size(), failure.reason.size() - 1);
  std::memcpy(failure.reason.data(), reason.data(), length);
  failure.reason[length] = 0;
  failure.state.store(2, std::memory_order_release);
  for (int peer = 0; peer < block.world(); ++peer)
    ring(block.lines(peer).sleep);
  return true;
}

}  // namespace krait::collectives
