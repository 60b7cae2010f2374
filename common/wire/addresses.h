// Where the processes of one host find each other: sockets in the run directory, by the group's name.
#pragma once

#include <string>

namespace krait::wire {

/// The leader's endpoint for coordinators, and the one for the ranks of its group.
std::string leader_address(const std::string& run_dir, const std::string& group);
std::string ranks_address(const std::string& run_dir, const std::string& group);

}  // namespace krait::wire
