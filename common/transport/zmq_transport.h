// Transport over ZeroMQ: ipc:// on one host, tcp:// between hosts.
#pragma once

#include <memory>

#include "common/base/limits.h"
#include "common/transport/transport.h"

namespace krait::transport {

struct ZmqOptions final {
  int high_water_mark = limits::kWireHighWaterMark;  // messages queued for one peer, on each side
  int64_t max_message_bytes = limits::kMaxWireMessageBytes;
  int64_t flush_ns = limits::kWireFlushNs;  // the destructor waits this long for what is queued
};

/// A transport with an I/O thread of its own. A bound endpoint is a ROUTER that knows its peers by the names they
/// connected with, and a name that comes back takes over from its earlier self (whose unread messages are dropped); a
/// connected one is a DEALER that keeps what it queued until its peer is there, also across a restart of the peer.
/// ipc paths are at most limits::kMaxIpcPathBytes; a socket file left by a process that is gone is replaced, one that
/// somebody listens on is not. Names of peers are 1 to limits::kMaxPeerNameBytes printable ASCII characters.
/// Error kResourceExhausted: no descriptors or threads left.
Result<std::unique_ptr<Transport>> make_zmq_transport(const ZmqOptions& options = {});

}  // namespace krait::transport
