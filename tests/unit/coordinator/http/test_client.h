// A blocking client on a raw socket, which may misbehave as a test likes. Every wait ends after kPatience.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/http/headers.h"

namespace krait::http {

inline constexpr int kPatienceMs = 20'000;

struct Response final {
  int status = 0;
  Headers headers;
  std::string body;
  bool chunked = false;
  bool complete = false;  // false when the connection ended inside

  std::string header(std::string_view name) const { return std::string(headers.find(name).value_or("")); }
};

class TestClient final {
 public:
  explicit TestClient(uint16_t port, int receive_buffer_bytes = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// Closes with a reset instead of an orderly end.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close();
  }
  void shut_down_writing() { ::shutdown(socket_, SHUT_WR); }

  /// False when the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// The next response; `to_head` when it answers a HEAD. Status 0 when the connection ended before one.
  Response receive(bool to_head = false) {
    Response response;
    size_t head_end = 0;
    while ((head_end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return response;
    }
    parse_head(std::string_view(buffer_).substr(0, head_end + 2), response);
    buffer_.erase(0, head_end + 4);
    const bool bare = to_head || response.status / 100 == 1 || response.status == 204 || response.status == 304;
    if (bare) {
      response.complete = true;
    } else if (response.header("Transfer-Encoding") == "chunked") {
      response.chunked = true;
      while (read_chunk(response)) {
      }
    } else if (const auto length = response.headers.find("Content-Length")) {
      const size_t bytes = std::stoul(std::string(*length));
      while (buffer_.size() < bytes && fill()) {
      }
      response.complete = buffer_.size() >= bytes;
      response.body = buffer_.substr(0, bytes);
      buffer_.erase(0, bytes);
    } else {
      while (fill()) {
      }
      response.body = std::exchange(buffer_, "");
      response.complete = true;
    }
    return response;
  }

  Response request(std::string_view bytes) {
    send(bytes);
    return receive();
  }

  /// Takes what there is, at most that many bytes; waits for the first. 0: the connection has ended.
  size_t take(size_t most) {
    std::string bytes(most, '\0');
    return static_cast<size_t>(std::max<ssize_t>(0, ::recv(socket_, bytes.data(), most, 0)));
  }

  /// Waits until `text` has come (in the raw bytes); they stay in the buffer.
  bool wait_for(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!fill()) return false;
    }
    return true;
  }

  /// True when the server ends the connection without another byte.
  bool wait_for_end() {
    while (fill()) {
    }
    return ended_ && buffer_.empty();
  }
  const std::string& raw() const { return buffer_; }

 private:
  // One chunk; false after the last one, or when the connection ended.
  bool read_chunk(Response& response) {
    size_t line = 0;
    while ((line = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return false;
    }
    const size_t bytes = std::stoul(buffer_.substr(0, line), nullptr, 16);
    const size_t end = line + 2 + bytes + 2;
    while (buffer_.size() < end) {
      if (!fill()) return false;
    }
    response.body += buffer_.substr(line + 2, bytes);
    buffer_.erase(0, end);
    response.complete = bytes == 0;
    return bytes != 0;
  }

  static void parse_head(std::string_view head, Response& response) {
    EXPECT_TRUE(head.starts_with("HTTP/1.1 ")) << head;
    response.status = std::stoi(std::string(head.substr(9, 3)));
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.empty()) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      const size_t colon = line.find(": ");
      EXPECT_NE(colon, std::string_view::npos) << line;
      if (colon == std::string_view::npos) return;
      response.headers.add(std::string(line.substr(0, colon)), std::string(line.substr(colon + 2)));
      head.remove_prefix(line.size() + 2);
    }
  }

  bool fill() {
    if (ended_) return false;
    pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kPatienceMs) != 1) {
      ADD_FAILURE() << "the server sent nothing for " << kPatienceMs << " ms";
      return false;
    }
    char bytes[65536];
    const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) {
      ended_ = true;
      was_reset_ = got < 0;
      return false;
    }
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }

 public:
  bool was_reset() const { return was_reset_; }

 private:
  int socket_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  bool was_reset_ = false;
  std::string buffer_;
};

}  // namespace krait::http
