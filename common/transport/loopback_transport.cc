#include "common/transport/loopback_transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "common/base/units.h"
#include "common/transport/peer_name.h"

namespace krait::transport {
namespace {

using Queue = std::deque<std::vector<std::byte>>;

/// What wakes one transport. All fields below are guarded by the hub's mutex.
struct Bell final {
  std::condition_variable ring;
  bool woken = false;
};

struct Connection final {
  std::string name;
  Bell* bell = nullptr;  // of the connected transport; null once it is gone or another took the name
  Queue to_bound;
  Queue to_connected;
};

struct Address final {
  Bell* bound = nullptr;
  std::vector<std::shared_ptr<Connection>> connections;
  size_t next = 0;  // the connection that is asked first
};

}  // namespace

class LoopbackHub final {
 public:
  explicit LoopbackHub(int high_water_mark) : high_water_mark_(static_cast<size_t>(high_water_mark)) {}

  std::mutex mutex;
  std::map<std::string, Address> addresses;

  Status push(Queue& queue, Bell* bell, std::string_view peer, std::vector<std::byte> bytes) const {
    if (queue.size() >= high_water_mark_) {
      return Error{Errc::kUnavailable, fmt::format("the queue for {} is full", peer)};
    }
    queue.push_back(std::move(bytes));
    if (bell != nullptr) bell->ring.notify_all();
    return {};
  }

 private:
  size_t high_water_mark_;
};

namespace {

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(std::shared_ptr<LoopbackHub> hub) : hub_(std::move(hub)) {}

  ~LoopbackTransport() override {
    const std::lock_guard lock(hub_->mutex);
    for (Endpoint& endpoint : endpoints_) {
      Address& address = hub_->addresses[endpoint.address];
      if (endpoint.connection == nullptr) {
        address.bound = nullptr;
        for (const auto& connection : address.connections)
          connection->to_bound.clear();
        drop_ended(address);
      } else {
        if (endpoint.connection->bell != &bell_) continue;
        endpoint.connection->bell = nullptr;
        endpoint.connection->to_connected.clear();
        // With nobody there nobody will read them; else they still arrive.
        if (address.bound == nullptr) endpoint.connection->to_bound.clear();
        drop_ended(address);
      }
    }
  }

  Result<EndpointId> bind(const std::string& address) override {
    RETURN_IF_ERROR(check_address(address));
    const std::lock_guard lock(hub_->mutex);
    Address& entry = hub_->addresses[address];
    if (entry.bound != nullptr) {
      return Error{Errc::kIo, fmt::format("cannot listen at {}: another transport does", address)};
    }
    entry.bound = &bell_;
    endpoints_.push_back({.address = address});
    return static_cast<EndpointId>(endpoints_.size() - 1);
  }

  Result<EndpointId> connect(const std::string& address, const std::string& name) override {
    RETURN_IF_ERROR(check_address(address));
    RETURN_IF_ERROR(check_peer_name(name));
    const std::lock_guard lock(hub_->mutex);
    Address& entry = hub_->addresses[address];
    for (const auto& earlier : entry.connections) {
      if (earlier->name != name) continue;
      earlier->bell = nullptr;
      earlier->to_bound.clear();
      earlier->to_connected.clear();
    }
    drop_ended(entry);
    auto connection = std::make_shared<Connection>();
    connection->name = name;
    connection->bell = &bell_;
    entry.connections.push_back(connection);
    endpoints_.push_back({.address = address, .connection = std::move(connection)});
    return static_cast<EndpointId>(endpoints_.size() - 1);
  }

  Status send(EndpointId endpoint, const std::string& peer, std::vector<std::byte> bytes) override {
    CHECK_GE(endpoint, 0);
    CHECK_LT(static_cast<size_t>(endpoint), endpoints_.size());
    if (std::cmp_greater(bytes.size(), limits::kMaxWireMessageBytes)) {
      return Error{Errc::kTooLarge,
                   fmt::format("a message of {} bytes, more than {}", bytes.size(), limits::kMaxWireMessageBytes)};
    }
    Endpoint& to = endpoints_[static_cast<size_t>(endpoint)];
    const std::lock_guard lock(hub_->mutex);
    Address& address = hub_->addresses[to.address];
    if (to.connection != nullptr) {
      if (to.connection->bell == nullptr) {
        return Error{Errc::kUnavailable, fmt::format("another {} took over", to.connection->name)};
      }
      return hub_->push(to.connection->to_bound, address.bound, to.address, std::move(bytes));
    }
    for (const auto& connection : address.connections) {
      if (connection->name != peer || connection->bell == nullptr) continue;
      return hub_->push(connection->to_connected, connection->bell, peer, std::move(bytes));
    }
    return Error{Errc::kUnavailable, fmt::format("{} is not connected", peer)};
  }

  std::optional<Packet> receive() override {
    const std::lock_guard lock(hub_->mutex);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const size_t index = (next_ + i) % endpoints_.size();
      std::optional<Packet> packet = take(index);
      if (!packet) continue;
      next_ = index + 1;
      return packet;
    }
    return std::nullopt;
  }

  void wait(int64_t timeout_ns) override {
    const auto timeout = std::chrono::nanoseconds(std::clamp<int64_t>(timeout_ns, 0, 3600 * kSecond));
    std::unique_lock lock(hub_->mutex);
    bell_.ring.wait_for(lock, timeout, [this] { return bell_.woken || has_message(); });
    bell_.woken = false;
  }

  void wake() override {
    const std::lock_guard lock(hub_->mutex);
    bell_.woken = true;
    bell_.ring.notify_all();
  }

 private:
  struct Endpoint final {
    std::string address;
    std::shared_ptr<Connection> connection;  // null on a bound endpoint
  };

  static Status check_address(const std::string& address) {
    if (address.starts_with("loop://")) return {};
    return Error{Errc::kIo, fmt::format("{} is not loop://", address)};
  }

  /// Connections whose owner is gone and whose messages are all read.
  static void drop_ended(Address& address) {
    std::erase_if(address.connections,
                  [](const auto& connection) { return connection->bell == nullptr && connection->to_bound.empty(); });
  }

  bool has_message() const {
    for (const Endpoint& endpoint : endpoints_) {
      if (endpoint.connection != nullptr) {
        if (!endpoint.connection->to_connected.empty()) return true;
        continue;
      }
      for (const auto& connection : hub_->addresses[endpoint.address].connections) {
        if (!connection->to_bound.empty()) return true;
      }
    }
    return false;
  }

  std::optional<Packet> take(size_t index) {
    const Endpoint& from = endpoints_[index];
    Packet packet{.endpoint = static_cast<EndpointId>(index)};
    if (from.connection != nullptr) {
      if (from.connection->to_connected.empty()) return std::nullopt;
      packet.bytes = std::move(from.connection->to_connected.front());
      from.connection->to_connected.pop_front();
      return packet;
    }
    Address& address = hub_->addresses[from.address];
    for (size_t i = 0; i < address.connections.size(); ++i) {
      const size_t at = (address.next + i) % address.connections.size();
      const std::shared_ptr<Connection> connection = address.connections[at];
      if (connection->to_bound.empty()) continue;
      packet.peer = connection->name;
      packet.bytes = std::move(connection->to_bound.front());
      connection->to_bound.pop_front();
      address.next = at + 1;
      drop_ended(address);
      return packet;
    }
    return std::nullopt;
  }

  std::shared_ptr<LoopbackHub> hub_;
  Bell bell_;
  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;  // the endpoint that receive() asks first
};

}  // namespace

std::shared_ptr<LoopbackHub> make_loopback_hub(int high_water_mark) {
  CHECK_GT(high_water_mark, 0);
  return std::make_shared<LoopbackHub>(high_water_mark);
}

std::unique_ptr<Transport> make_loopback_transport(std::shared_ptr<LoopbackHub> hub) {
  return std::make_unique<LoopbackTransport>(std::move(hub));
}

}  // namespace krait::transport
