#include "shard_server/collectives/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::collectives {
namespace {

constexpr int kMomentMs = 20;
constexpr auto kRetryPause = std::chrono::milliseconds(5);
constexpr int kBacklog = 64;

struct SocketAddress final {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Error bad_address(const std::string& address, std::string_view why) {
  return Error{Errc::kInvalidArgument, fmt::format("'{}' is no address host:port: {}", address, why), "address"};
}

Error socket_error(std::string_view what, const std::string& address, int error) {
  return Error{Errc::kIo, fmt::format("{} {}: {}", what, address, std::strerror(error)), "address"};
}

Result<SocketAddress> look_up(const std::string& address, int flags) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad_address(address, "no port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad_address(address, "no host");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return bad_address(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  SocketAddress result;
  result.bytes = found->ai_addrlen;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  return result;
}

std::string to_text(const SocketAddress& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(address.get(), address.bytes, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  const bool is_v6 = address.storage.ss_family == AF_INET6;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<SocketAddress> local_address(int fd, const std::string& near) {
  SocketAddress local;
  local.bytes = sizeof local.storage;
  if (getsockname(fd, local.get(), &local.bytes) != 0) return socket_error("no address near", near, errno);
  return local;
}

void set_port(SocketAddress& address, uint16_t port) {
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  }
}

Error closed() {
  return Error{Errc::kUnavailable, "a rank closed its connection while the group formed",
               std::string(kConnectionClosed)};
}

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

Result<std::shared_ptr<TcpListener>> TcpListener::open(const std::string& address) {
  ASSIGN_OR_RETURN(const SocketAddress where, look_up(address, AI_NUMERICHOST | AI_PASSIVE));
  Fd fd(socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return socket_error("no socket for", address, errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), where.get(), where.bytes) != 0 || listen(fd.get(), kBacklog) != 0)
    return socket_error("cannot listen at", address, errno);
  ASSIGN_OR_RETURN(const SocketAddress got, local_address(fd.get(), address));
  return std::shared_ptr<TcpListener>(new TcpListener(std::move(fd), to_text(got)));
}

Result<std::shared_ptr<TcpListener>> TcpListener::open_towards(const std::string& address) {
  ASSIGN_OR_RETURN(const SocketAddress peer, look_up(address, AI_NUMERICHOST));
  // A datagram socket's connect sends nothing: it asks the routes.
  const Fd probe(socket(peer.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.is_open() || connect(probe.get(), peer.get(), peer.bytes) != 0)
    return socket_error("no route to", address, errno);
  ASSIGN_OR_RETURN(SocketAddress local, local_address(probe.get(), address));
  set_port(local, 0);
  return open(to_text(local));
}

Result<std::string> resolve_address(const std::string& host_and_port) {
  ASSIGN_OR_RETURN(const SocketAddress found, look_up(host_and_port, AI_ADDRCONFIG));
  return to_text(found);
}

Errc code_from_wire(int64_t code) {
  const bool is_known = code >= 0 && code <= UINT8_MAX && is_errc(static_cast<uint8_t>(code));
  return is_known ? static_cast<Errc>(code) : Errc::kProtocol;
}

Status Patience::check(std::string_view what) const {
  if (cancel != nullptr && *cancel) return Error{Errc::kUnavailable, "the group was given up while it formed", ""};
  if (clock.now_ns() < deadline_ns) return {};
  return Error{Errc::kDeadlineExceeded, fmt::format("{} in time", what), ""};
}

void wait_a_moment(int fd, short events) {
  pollfd one{fd, events, 0};
  poll(&one, 1, kMomentMs);
}

Result<Fd> connect_to(const std::string& address, const Patience& patience) {
  ASSIGN_OR_RETURN(const SocketAddress where, look_up(address, AI_NUMERICHOST));
  while (true) {
    Fd fd(socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_open()) return socket_error("no socket for", address, errno);
    int error = connect(fd.get(), where.get(), where.bytes) == 0 ? 0 : errno;
    while (error == EINPROGRESS) {
      RETURN_IF_ERROR(patience.check(fmt::format("{} did not answer", address)));
      pollfd one{fd.get(), POLLOUT, 0};
      if (poll(&one, 1, kMomentMs) <= 0) continue;
      socklen_t bytes = sizeof error;
      if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    }
    if (error == 0) {
      tune_socket(fd.get());
      return fd;
    }
    RETURN_IF_ERROR(patience.check(fmt::format("{} did not take a connection ({})", address, std::strerror(error))));
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status send_whole(int fd, const void* data, size_t bytes, const Patience& patience) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      at += sent;
      bytes -= static_cast<size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return closed();
    RETURN_IF_ERROR(patience.check("a rank did not read"));
    wait_a_moment(fd, POLLOUT);
  }
  return {};
}

Status receive_whole(int fd, void* data, size_t bytes, const Patience& patience) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return closed();
    RETURN_IF_ERROR(patience.check("a rank said nothing"));
    wait_a_moment(fd, POLLIN);
  }
  return {};
}

void tune_socket(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Only an idle connection is watched so: a peer that computes may leave bytes unread for as long as the deadline lets
  // it.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(limits::kTcpKeepAliveNs / kSecond));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(limits::kTcpKeepAliveNs / kSecond));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace krait::collectives
