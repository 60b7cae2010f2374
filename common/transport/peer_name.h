#pragma once

#include <string>

#include "common/base/result.h"

namespace krait::transport {

/// 1 to limits::kMaxPeerNameBytes printable ASCII characters: what can be a routing id and stand in a log line.
Status check_peer_name(const std::string& name);

}  // namespace krait::transport
