#include "shard_server/collectives/tcp.h"

#include <cstdlib>

#include "shard_server/collectives/block_communicator.h"
#include "shard_server/collectives/tcp_mesh.h"
#include "shard_server/collectives/tcp_signals.h"

namespace krait::collectives {

Result<std::unique_ptr<Communicator>> make_tcp_communicator(const Options& options) {
  RETURN_IF_ERROR(validate_options(options));
  const BlockConfig config = block_config(options);
  ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> memory, allocate_block(config));
  const Clock& clock = clock_of(options);
  const Patience patience{clock, clock.now_ns() + options.timeout_ns, options.cancel};
  ASSIGN_OR_RETURN(TcpMesh mesh, form_tcp_mesh(options, config, patience));
  const Block block(memory.get());
  return std::unique_ptr<Communicator>(new BlockCommunicator(
      options, "tcp", memory, block, std::make_unique<TcpSignals>(block, options, std::move(mesh))));
}

}  // namespace krait::collectives
