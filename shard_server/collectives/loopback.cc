#include "shard_server/collectives/loopback.h"

#include <map>
#include <mutex>

#include "shard_server/collectives/block.h"
#include "shard_server/collectives/block_communicator.h"

namespace krait::collectives {

/// Holds the block of each group by its name; whoever comes first makes it.
class LoopbackHub final {
 public:
  /// The block of that name, of the first caller's `config`. kResourceExhausted if there is no memory for it.
  Result<Block> block(const std::string& name, const BlockConfig& config) {
    const std::lock_guard lock(mutex_);
    auto& memory = memory_[name];
    if (memory == nullptr) {
      ASSIGN_OR_RETURN(memory, allocate_block(config));
    }
    return Block(memory.get());
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<std::byte>> memory_;
};

std::shared_ptr<LoopbackHub> make_loopback_hub() {
  return std::make_shared<LoopbackHub>();
}

Result<std::unique_ptr<Communicator>> make_loopback_communicator(const Options& options) {
  RETURN_IF_ERROR(validate_options(options));
  if (options.hub == nullptr) return Error{Errc::kInvalidArgument, "loopback ranks need a hub to meet in", "hub"};
  const BlockConfig config = block_config(options);
  ASSIGN_OR_RETURN(const Block block, options.hub->block(options.name, config));
  const Clock& clock = clock_of(options);
  RETURN_IF_ERROR(
      attach_and_wait(block, config, options.rank, clock, clock.now_ns() + options.timeout_ns, options.cancel));
  return std::unique_ptr<Communicator>(
      new BlockCommunicator(options, "loopback", options.hub, block,
                            std::make_unique<SharedSignals>(block, options.rank, options.may_spin, clock)));
}

}  // namespace krait::collectives
