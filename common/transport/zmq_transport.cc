#include "common/transport/zmq_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <zmq.hpp>

#include "common/base/log.h"
#include "common/base/units.h"
#include "common/transport/ipc_path.h"
#include "common/transport/peer_name.h"

namespace krait::transport {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr std::string_view kTcp = "tcp://";
constexpr int kReconnectMs = 20;
constexpr int kReconnectMaxMs = 500;
constexpr int kMaxDroppedAtOnce = 64;  // malformed messages passed over by one receive()

/// A file descriptor that wake() makes readable and wait() polls along with the sockets.
class WakeFd final {
 public:
  WakeFd() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~WakeFd() {
    if (fd_ >= 0) close(fd_);
  }
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;

  int fd() const { return fd_; }
  // Both fail only when the counter is already where the call would bring it.
  void raise() const { [[maybe_unused]] const int failed = eventfd_write(fd_, 1); }
  void clear() const {
    eventfd_t count = 0;
    [[maybe_unused]] const int failed = eventfd_read(fd_, &count);
  }

 private:
  int fd_;
};

class ZmqTransport final : public Transport {
 public:
  /// Throws zmq::error_t; make_zmq_transport catches it.
  explicit ZmqTransport(const ZmqOptions& options) : options_(options), context_(1) { rebuild_poll_items(); }

  bool has_wake_fd() const { return wake_fd_.fd() >= 0; }

  Result<EndpointId> bind(const std::string& address) override {
    RETURN_IF_ERROR(check_address(address));
    if (address.starts_with(kIpc)) RETURN_IF_ERROR(remove_stale_ipc_socket(address.substr(kIpc.size())));
    try {
      zmq::socket_t socket = make_socket(zmq::socket_type::router, address);
      // Without these a message to an unknown or full peer vanishes, and a peer that comes back is refused.
      socket.set(zmq::sockopt::router_mandatory, true);
      socket.set(zmq::sockopt::router_handover, true);
      socket.bind(address);
      if (address.starts_with(kIpc)) {
        socket_files_.push_back(std::make_unique<OwnedSocketFile>(address.substr(kIpc.size())));
      }
      return add(std::move(socket), true);
    } catch (const zmq::error_t& error) {
      return Error{Errc::kIo, fmt::format("cannot listen at {}: {}", address, error.what())};
    }
  }

  Result<EndpointId> connect(const std::string& address, const std::string& name) override {
    RETURN_IF_ERROR(check_address(address));
    RETURN_IF_ERROR(check_peer_name(name));
    try {
      zmq::socket_t socket = make_socket(zmq::socket_type::dealer, address);
      socket.set(zmq::sockopt::routing_id, name);
      socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
      socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMaxMs);
      socket.connect(address);
      return add(std::move(socket), false);
    } catch (const zmq::error_t& error) {
      return Error{Errc::kIo, fmt::format("cannot connect to {}: {}", address, error.what())};
    }
  }

  Status send(EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) override {
    CHECK_GE(endpoint, 0);
    CHECK_LT(static_cast<size_t>(endpoint), endpoints_.size());
    if (std::cmp_greater(bytes.size(), options_.max_message_bytes)) return too_large(bytes.size());
    Endpoint& to = endpoints_[static_cast<size_t>(endpoint)];
    try {
      // The router looks at its peer's queue when it takes the name; once that is accepted the message is too.
      if (to.bound && !to.socket.send(zmq::buffer(peer), zmq::send_flags::sndmore | zmq::send_flags::dontwait)) {
        return Error{Errc::kUnavailable, fmt::format("the queue for {} is full", peer)};
      }
      if (!to.socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::dontwait)) {
        return Error{Errc::kUnavailable, fmt::format("the queue at {} is full", to.bound ? peer : "this connection")};
      }
      return {};
    } catch (const zmq::error_t& error) {
      const std::string_view why = error.num() == EHOSTUNREACH ? "is not connected" : error.what();
      return Error{Errc::kUnavailable, fmt::format("{} {}", to.bound ? peer : "the peer", why)};
    }
  }

  std::optional<Packet> receive() override {
    for (int dropped = 0; dropped < kMaxDroppedAtOnce;) {
      bool any = false;
      for (size_t i = 0; i < endpoints_.size(); ++i) {
        const size_t index = (next_ + i) % endpoints_.size();
        Taken taken = take(index);
        if (!taken.any) continue;
        any = true;
        next_ = index + 1;  // The others come first next time.
        if (taken.packet) return std::move(taken.packet);
        ++dropped;
      }
      if (!any) return std::nullopt;
    }
    return std::nullopt;
  }

  void wait(int64_t timeout_ns) override {
    const int64_t timeout_ms = ceil_div(std::clamp<int64_t>(timeout_ns, 0, 3600 * kSecond), kMs);
    try {
      zmq::poll(poll_items_, std::chrono::milliseconds(timeout_ms));
    } catch (const zmq::error_t&) {
      // A signal: the caller looks around, as after a wake().
    }
    wake_fd_.clear();
  }

  void wake() override { wake_fd_.raise(); }

 private:
  struct Endpoint final {
    zmq::socket_t socket;
    bool bound = false;
  };

  /// What one look at a socket gave: nothing, a message of ours, or something else that was dropped.
  struct Taken final {
    bool any = false;
    std::optional<Packet> packet;
  };

  static Status check_address(const std::string& address) {
    if (address.starts_with(kIpc)) return check_ipc_path(address.substr(kIpc.size()));
    if (address.starts_with(kTcp)) return {};
    return Error{Errc::kIo, fmt::format("{} is neither ipc:// nor tcp://", address)};
  }

  Error too_large(size_t size) const {
    return Error{Errc::kTooLarge, fmt::format("a message of {} bytes, more than {}", size, options_.max_message_bytes)};
  }

  zmq::socket_t make_socket(zmq::socket_type type, const std::string& address) {
    zmq::socket_t socket(context_, type);
    socket.set(zmq::sockopt::sndhwm, options_.high_water_mark);
    socket.set(zmq::sockopt::rcvhwm, options_.high_water_mark);
    socket.set(zmq::sockopt::maxmsgsize, options_.max_message_bytes);
    socket.set(zmq::sockopt::linger, static_cast<int>(options_.flush_ns / kMs));
    if (address.starts_with(kTcp)) {
      // A host that vanished closes nothing; without a word for this long the connection is dropped and made anew.
      socket.set(zmq::sockopt::heartbeat_ivl, static_cast<int>(limits::kPeerTimeoutNs / kMs));
      socket.set(zmq::sockopt::heartbeat_timeout, static_cast<int>(limits::kPeerTimeoutNs / kMs));
    }
    return socket;
  }

  EndpointId add(zmq::socket_t socket, bool bound) {
    endpoints_.push_back({std::move(socket), bound});
    rebuild_poll_items();
    return static_cast<EndpointId>(endpoints_.size() - 1);
  }

  void rebuild_poll_items() {
    poll_items_.assign(1, {nullptr, wake_fd_.fd(), ZMQ_POLLIN, 0});
    for (Endpoint& endpoint : endpoints_)
      poll_items_.push_back({endpoint.socket.handle(), 0, ZMQ_POLLIN, 0});
  }

  Taken take(size_t index) {
    Endpoint& from = endpoints_[index];
    try {
      zmq::message_t first;
      if (!from.socket.recv(first, zmq::recv_flags::dontwait)) return {};
      Packet packet{.endpoint = static_cast<EndpointId>(index)};
      bool valid = true;
      zmq::message_t payload;
      if (from.bound) {
        packet.peer.assign(first.data<char>(), first.size());
        valid = first.more() && check_peer_name(packet.peer).ok();
        // The parts of a message arrive together, so the rest is there.
        if (first.more()) [[maybe_unused]]
          const auto size = from.socket.recv(payload, zmq::recv_flags::dontwait);
      } else {
        payload = std::move(first);
      }
      while (payload.more()) {
        valid = false;
        zmq::message_t part;
        if (!from.socket.recv(part, zmq::recv_flags::dontwait)) break;
        payload = std::move(part);
      }
      if (!valid) {
        report_malformed();
        return {.any = true};
      }
      const auto* data = payload.data<std::byte>();
      packet.bytes.assign(data, data + payload.size());
      return {.any = true, .packet = std::move(packet)};
    } catch (const zmq::error_t&) {
      return {};
    }
  }

  /// Once: whoever sends such things sends many.
  void report_malformed() {
    if (!malformed_reported_) log_warning("dropped a message that is not from this program's transport");
    malformed_reported_ = true;
  }

  ZmqOptions options_;
  WakeFd wake_fd_;
  zmq::context_t context_;  // before the sockets: it waits for them, at most flush_ns
  std::vector<Endpoint> endpoints_;
  std::vector<std::unique_ptr<OwnedSocketFile>> socket_files_;  // gone before we stop listening: the name is free then
  std::vector<zmq::pollitem_t> poll_items_;                     // wake_fd_, then one an endpoint
  size_t next_ = 0;                                             // the endpoint that receive() asks first
  bool malformed_reported_ = false;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_zmq_transport(const ZmqOptions& options) {
  try {
    auto transport = std::make_unique<ZmqTransport>(options);
    if (!transport->has_wake_fd()) return Error{Errc::kResourceExhausted, "no descriptor left for a transport"};
    return std::unique_ptr<Transport>(std::move(transport));
  } catch (const zmq::error_t& error) {
    return Error{Errc::kResourceExhausted, fmt::format("cannot start ZeroMQ: {}", error.what())};
  }
}

}  // namespace krait::transport
