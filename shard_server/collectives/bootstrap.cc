#include "shard_server/collectives/bootstrap.h"

#include <fmt/format.h>

namespace krait::collectives {

std::string Bootstrap::to_text() const {
  return fmt::format("{}:{}{}{}", transport, name, address.empty() ? "" : "@", address);
}

Result<Bootstrap> Bootstrap::parse(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    return Error{Errc::kProtocol, fmt::format("'{}' is no bootstrap of collectives", text), "bootstrap"};
  const size_t at = std::min(text.find('@', colon), text.size());
  Bootstrap bootstrap;
  bootstrap.transport = text.substr(0, colon);
  bootstrap.name = text.substr(colon + 1, at - colon - 1);
  if (at < text.size()) bootstrap.address = text.substr(at + 1);
  return bootstrap;
}

}  // namespace krait::collectives
