#include "common/wire/addresses.h"

#include <fmt/format.h>

namespace krait::wire {

std::string leader_address(const std::string& run_dir, const std::string& group) {
  return fmt::format("ipc://{}/{}.ipc", run_dir, group);
}

std::string ranks_address(const std::string& run_dir, const std::string& group) {
  return fmt::format("ipc://{}/{}-ranks.ipc", run_dir, group);
}

}  // namespace krait::wire
