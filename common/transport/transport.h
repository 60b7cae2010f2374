// Bytes between daemons. One thread owns a transport; only wake() may be called from others. Addresses say how:
// "ipc:///path" and "tcp://host:port" (ZeroMQ), "loop://name" (one process, tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace krait::transport {

/// A bound or connected endpoint of this transport.
using EndpointId = int32_t;

struct Packet final {
  EndpointId endpoint = -1;
  std::string peer;  // the sender's name on a bound endpoint; empty on a connected one
  std::vector<std::byte> bytes;
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// Accepts peers at `address`. Error kIo names the address (in use, too long, no such folder).
  virtual Result<EndpointId> bind(const std::string& address) = 0;

  /// Connects to a bound endpoint, now or whenever it comes up; `name` is how the other side sees us.
  virtual Result<EndpointId> connect(const std::string& address, const std::string& name) = 0;

  /// Queues one message. On a bound endpoint `peer` names the receiver. Error kUnavailable: no such peer is connected,
  /// or its queue (limits::kWireHighWaterMark) is full. Never blocks.
  virtual Status send(EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) = 0;

  /// The next message that has arrived, if any; never blocks.
  virtual std::optional<Packet> receive() = 0;

  /// Returns when a message may have arrived, after wake(), or after `timeout_ns`.
  virtual void wait(int64_t timeout_ns) = 0;

  /// Ends the current or next wait(). From any thread.
  virtual void wake() = 0;
};

}  // namespace krait::transport
