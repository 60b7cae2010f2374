// Transport within one process: a whole cluster in a test, with the same rules as over ZeroMQ.
#pragma once

#include <memory>

#include "common/base/limits.h"
#include "common/transport/transport.h"

namespace krait::transport {

/// The place where transports of one process meet; addresses "loop://name" are its own. Thread-safe.
class LoopbackHub;

/// `high_water_mark`: messages queued for one peer in one direction.
std::shared_ptr<LoopbackHub> make_loopback_hub(int high_water_mark = limits::kWireHighWaterMark);

/// A transport on `hub`. As over ZeroMQ: a connection may come before its bound side, keeps what it queued across a
/// restart of that side, and a name that comes back takes over. Here a message has arrived as soon as it is sent, so a
/// test that drives all transports from one thread needs no wait().
std::unique_ptr<Transport> make_loopback_transport(std::shared_ptr<LoopbackHub> hub);

}  // namespace krait::transport
