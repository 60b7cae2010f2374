// Sockets between hosts, as the TCP transport needs them: none of its calls waits without a deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "shard_server/collectives/fd.h"

namespace krait::collectives {

/// Where a rank listens for others. Addresses are "10.0.0.1:7100" or "[fe80::1]:7100": numbers, no names, so that
/// nobody waits for a name server while a group forms.
class TcpListener final {
 public:
  /// Listens at `address`; port 0 picks one. kInvalidArgument, or kIo with the system's reason.
  static Result<std::shared_ptr<TcpListener>> open(const std::string& address);
  /// At a port of its own, on the interface from which `address` is reached.
  static Result<std::shared_ptr<TcpListener>> open_towards(const std::string& address);

  /// With the port that it got.
  const std::string& address() const { return address_; }
  int fd() const { return fd_.get(); }

 private:
  TcpListener(Fd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  Fd fd_;
  std::string address_;
};

/// "host:port" with the host's number instead of its name. Asks the name server, so it may take its time.
Result<std::string> resolve_address(const std::string& host_and_port);

/// How long somebody waits while a group forms, and what may end it earlier.
struct Patience final {
  const Clock& clock;
  int64_t deadline_ns = 0;
  const std::atomic<bool>* cancel = nullptr;

  /// OK, kUnavailable after a cancel, or kDeadlineExceeded with the words of `what`.
  Status check(std::string_view what) const;
};

/// A connection to `address`. Tries again while nobody listens there.
Result<Fd> connect_to(const std::string& address, const Patience& patience);
/// The `param` of the errors of a connection that its other end closed.
inline constexpr std::string_view kConnectionClosed = "connection";
/// All of data[bytes], or the error. The socket does not block.
Status send_whole(int fd, const void* data, size_t bytes, const Patience& patience);
Status receive_whole(int fd, void* data, size_t bytes, const Patience& patience);
/// Sleeps until one of `events` (POLLIN, POLLOUT) or for a moment.
void wait_a_moment(int fd, short events);

/// The code that a peer sent; kProtocol for a number that is none.
Errc code_from_wire(int64_t code);

/// For a connection in use: no delay for small messages; a peer whose host is gone is noticed.
void tune_socket(int fd);

}  // namespace krait::collectives
