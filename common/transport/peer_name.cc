#include "common/transport/peer_name.h"

#include "common/base/limits.h"

namespace krait::transport {

Status check_peer_name(const std::string& name) {
  if (name.empty() || std::cmp_greater(name.size(), limits::kMaxPeerNameBytes)) {
    return Error{Errc::kInvalidArgument,
                 fmt::format("a peer's name of {} bytes, not 1 to {}", name.size(), limits::kMaxPeerNameBytes)};
  }
  for (const char c : name) {
    if (c <= ' ' || c > '~')
      return Error{Errc::kInvalidArgument, "a peer's name with a character that is not printable"};
  }
  return {};
}

}  // namespace krait::transport
