// Every kind of transport behind one face, so that one set of tests holds for all of them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "common/transport/loopback_transport.h"
#include "common/transport/zmq_transport.h"

namespace krait::transport::test {

/// No test waits longer for a message that must come; it is not a timing assertion but an end to hanging.
inline constexpr int64_t kPatienceNs = 60 * kSecond;

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}
inline std::string text_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()};
}

/// The next message, or none when patience is at its end.
inline std::optional<Packet> take(Transport& transport, int64_t patience_ns = kPatienceNs) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_ns);
  while (true) {
    if (std::optional<Packet> packet = transport.receive()) return packet;
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return std::nullopt;
    transport.wait(left.count());
  }
}

class TempDir final {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "krait-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Makes transports of one kind ("loop", "ipc" or "tcp") that can reach each other.
class Fabric final {
 public:
  explicit Fabric(std::string kind, int high_water_mark = limits::kWireHighWaterMark)
      : kind_(std::move(kind)), hub_(make_loopback_hub(high_water_mark)) {
    // Slow machines are no reason to lose what is queued at the end.
    options_ = {.high_water_mark = high_water_mark, .flush_ns = 30 * kSecond};
  }

  std::unique_ptr<Transport> make() {
    if (kind_ == "loop") return make_loopback_transport(hub_);
    return std::move(make_zmq_transport(options_)).value();
  }
  /// For a transport whose messages may have nowhere to go.
  std::unique_ptr<Transport> make_impatient() {
    if (kind_ == "loop") return make_loopback_transport(hub_);
    ZmqOptions options = options_;
    options.flush_ns = 10 * kMs;
    return std::move(make_zmq_transport(options)).value();
  }

  /// A fresh address. Ports are those that the system hands out and that are free again a moment later.
  std::string address();

 private:
  std::string kind_;
  std::shared_ptr<LoopbackHub> hub_;
  ZmqOptions options_;
  TempDir dir_;
  int count_ = 0;
};

}  // namespace krait::transport::test
