// Where the processes of one host find each other: sockets in the run directory, by the group's name.
#pragma once

#include <string>

#include "common/base/result.h"

namespace krait::wire {

/// The leader's endpoint for coordinators, and the one for the ranks of its group.
std::string leader_address(const std::string& run_dir, const std::string& group);
std::string ranks_address(const std::string& run_dir, const std::string& group);

/// kInvalidArgument (group) for a name that cannot be part of the names of sockets and segments.
krait::Status check_group_name(const std::string& name);

/// kInvalidArgument (run-dir) for what can never hold sockets: an empty name, what is no folder, a name that leads
/// nowhere. A folder that is not there yet is sound.
krait::Status check_run_dir(const std::string& run_dir);

/// Why nobody answers at an address of the above, as the file system knows it: "there is no socket there", "what is
/// there is no socket", or "nothing was heard from there".
std::string why_silent(const std::string& address);

}  // namespace krait::wire
