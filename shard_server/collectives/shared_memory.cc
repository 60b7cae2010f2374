#include "shard_server/collectives/shared_memory.h"

#include <chrono>
#include <optional>
#include <thread>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/block_communicator.h"
#include "shard_server/collectives/segment.h"

namespace krait::collectives {
namespace {

constexpr auto kOpenPoll = std::chrono::milliseconds(1);

// Rank 0 writes the options' block into a new segment.
Result<Segment> make_segment(const std::string& name, const BlockConfig& config) {
  remove_stale_segments();
  ASSIGN_OR_RETURN(Segment segment, Segment::create(name, block_bytes(config)));
  initialize_block(segment.data(), config);
  return segment;
}

// The others look until it is there. The header is looked at first: a group of other options has another size.
Result<Segment> find_segment(const std::string& name, const BlockConfig& config, int rank, const Clock& clock,
                             int64_t deadline_ns, const std::atomic<bool>* cancel) {
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Segment> head, Segment::open(name, sizeof(BlockHeader)));
    const bool is_ready =
        head.has_value() && Block(head->data()).header().ready.load(std::memory_order_acquire) == kBlockReady;
    if (is_ready) {
      const Block block(head->data());
      if (block.header().config != config) {
        fail_block(block, rank, Errc::kProtocol, "its options are not those of rank 0");
        return block_health(block).error();
      }
      ASSIGN_OR_RETURN(std::optional<Segment> whole, Segment::open(name, block_bytes(config)));
      if (whole.has_value()) return *std::move(whole);
    }
    if (cancel != nullptr && *cancel) return Error{Errc::kUnavailable, "the group was given up while it formed", ""};
    if (clock.now_ns() >= deadline_ns) {
      remove_if_stale(name);
      return Error{Errc::kDeadlineExceeded, fmt::format("rank 0 did not make {} in time", name), ""};
    }
    std::this_thread::sleep_for(kOpenPoll);
  }
}

}  // namespace

Result<std::unique_ptr<Communicator>> make_shared_memory_communicator(const Options& options) {
  RETURN_IF_ERROR(validate_options(options));
  const BlockConfig config = block_config(options);
  const Clock& clock = clock_of(options);
  const int64_t deadline_ns = clock.now_ns() + options.timeout_ns;
  const std::string name = segment_name(options.name, options.epoch);
  auto found = options.rank == 0 ? make_segment(name, config)
                                 : find_segment(name, config, options.rank, clock, deadline_ns, options.cancel);
  ASSIGN_OR_RETURN(Segment segment, std::move(found));
  const Block block(segment.data());
  const Status attached = attach_and_wait(block, config, options.rank, clock, deadline_ns, options.cancel);
  // Formed or not, nobody needs the name any more. Every rank takes it away: rank 0 may be dead by now.
  segment.unlink();
  RETURN_IF_ERROR(attached);
  auto memory = std::make_shared<Segment>(std::move(segment));
  return std::unique_ptr<Communicator>(
      new BlockCommunicator(options, "shared_memory", std::move(memory), block,
                            std::make_unique<SharedSignals>(block, options.rank, options.may_spin, clock)));
}

}  // namespace krait::collectives
