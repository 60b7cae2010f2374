#include "common/metrics/exposition.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace krait::metrics {
namespace {

int connect_to(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// Reads until the server closes, or, given `until`, until that text has come.
std::string receive(int socket, const std::string& until = "") {
  std::string all;
  char bytes[4096];
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  while (until.empty() || all.find(until) == std::string::npos) {
    if (poll(&waiting, 1, 20'000) != 1) {
      ADD_FAILURE() << "no answer";
      break;
    }
    const ssize_t got = ::recv(socket, bytes, sizeof(bytes), 0);
    if (got <= 0) break;
    all.append(bytes, static_cast<size_t>(got));
  }
  return all;
}

std::string ask(uint16_t port, const std::string& request) {
  const int socket = connect_to(port);
  ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  const std::string answer = receive(socket);
  ::close(socket);
  return answer;
}

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
}

std::unique_ptr<MetricsServer> start(std::function<std::string()> render) {
  auto server = MetricsServer::start("127.0.0.1", 0, std::move(render));
  EXPECT_TRUE(server.ok());
  return std::move(server).value();
}

TEST(MetricsServer, ServesMetricsAndHealth) {
  int renders = 0;
  const auto server = start([&] { return "krait_up " + std::to_string(++renders) + "\n"; });
  const std::string answer = ask(server->port(), get("/metrics?x=1"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(answer.find("\r\nContent-Type: text/plain; version=0.0.4"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\nkrait_up 1\n")) << answer;
  EXPECT_TRUE(ask(server->port(), get("/health")).ends_with("\r\n\r\nok\n"));
  EXPECT_TRUE(ask(server->port(), get("/other")).starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask(server->port(), "POST /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(ask(server->port(), "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
  EXPECT_TRUE(ask(server->port(), "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(ask(server->port(), "GET /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

TEST(MetricsServer, KeepsAConnectionAndSendsLargePages) {
  const std::string page(3'000'000, 'm');
  const auto server = start([&] { return page + "the end\n"; });
  const int socket = connect_to(server->port());
  for (int i = 0; i < 3; ++i) {
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    ::send(socket, request.data(), request.size(), MSG_NOSIGNAL);
    const std::string answer = receive(socket, "the end\n");
    EXPECT_NE(answer.find("Content-Length: 3000008\r\n"), std::string::npos);
    EXPECT_GT(answer.size(), page.size());
  }
  ::close(socket);
}

TEST(MetricsServer, ALongHeaderInSmallPiecesIsRefused) {
  const auto server = start([] { return std::string(); });
  const int socket = connect_to(server->port());
  std::string piece = "GET /metrics HTTP/1.1\r\n";
  for (int i = 0; i < 1000; ++i) {
    if (::send(socket, piece.data(), piece.size(), MSG_NOSIGNAL) <= 0) break;
    piece = "header" + std::to_string(i) + ": " + std::string(100, 'v') + "\r\n";
  }
  const std::string answer = receive(socket);
  EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400 ")) << answer;
  ::close(socket);
}

TEST(MetricsServer, SurvivesAFailingRender) {
  std::atomic<bool> fails{true};
  const auto server = start([&]() -> std::string {
    if (fails) throw std::runtime_error("secret");
    return "fine\n";
  });
  const std::string answer = ask(server->port(), get("/metrics"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 "));
  EXPECT_EQ(answer.find("secret"), std::string::npos);
  fails = false;
  EXPECT_TRUE(ask(server->port(), get("/metrics")).ends_with("fine\n"));
}

TEST(MetricsServer, BoundsItsConnections) {
  const auto server = start([] { return std::string("x\n"); });
  std::vector<int> sockets;
  for (int i = 0; i < 100; ++i)
    sockets.push_back(connect_to(server->port()));
  // The last ones were closed without a word; the first ones work.
  EXPECT_EQ(receive(sockets.back()), "");
  const std::string request = get("/metrics");
  ::send(sockets.front(), request.data(), request.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(receive(sockets.front()).ends_with("x\n"));
  for (const int socket : sockets)
    ::close(socket);
}

TEST(MetricsServer, StopsWithOpenConnectionsAndFreesItsPort) {
  auto server = start([] { return std::string("x\n"); });
  const uint16_t port = server->port();
  const int idle = connect_to(port);
  const int half = connect_to(port);
  ::send(half, "GET /me", 7, MSG_NOSIGNAL);
  server->stop();
  server->stop();
  EXPECT_EQ(receive(idle), "");
  EXPECT_EQ(receive(half), "");
  ::close(idle);
  ::close(half);
  server.reset();
  auto again = MetricsServer::start("localhost", port, [] { return std::string("y\n"); });
  ASSERT_TRUE(again.ok()) << to_string(again.error());
  EXPECT_TRUE(ask(port, get("/metrics")).ends_with("y\n"));
  const auto taken = MetricsServer::start("127.0.0.1", port, [] { return std::string(); });
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::kIo);
  EXPECT_EQ(MetricsServer::start("no.such.host", 0, [] { return std::string(); }).error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace krait::metrics
