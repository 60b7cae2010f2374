// What only sockets can have: files, strangers, sizes.
#include "common/transport/zmq_transport.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <zmq.hpp>

#include "tests/unit/common/transport/fabric.h"

namespace krait::transport::test {
namespace {

std::unique_ptr<Transport> make(ZmqOptions options = {}) {
  return std::move(make_zmq_transport(options)).value();
}

/// A socket file as a killed process leaves it: bound once, nobody listening.
void leave_socket_file(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(file);
  ASSERT_TRUE(std::filesystem::is_socket(path));
}

TEST(ZmqTransport, TheSocketFileOfADeadRunIsReplaced) {
  const TempDir dir;
  leave_socket_file(dir / "s");
  auto bound = make(), peer = make();
  ASSERT_TRUE(bound->bind("ipc://" + (dir / "s")).ok());
  const EndpointId door = peer->connect("ipc://" + (dir / "s"), "peer").value();
  ASSERT_TRUE(peer->send(door, "", bytes_of("hello")).ok());
  EXPECT_TRUE(take(*bound));
}

TEST(ZmqTransport, NoSocketFileStays) {
  const TempDir dir;
  auto bound = make();
  ASSERT_TRUE(bound->bind("ipc://" + (dir / "s")).ok());
  ASSERT_TRUE(std::filesystem::is_socket(dir / "s"));
  bound.reset();
  EXPECT_FALSE(std::filesystem::exists(dir / "s"));
}

TEST(ZmqTransport, AFileThatIsNoSocketIsLeftAlone) {
  const TempDir dir;
  std::ofstream(dir / "precious") << "data";
  const Result<EndpointId> result = make()->bind("ipc://" + (dir / "precious"));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Errc::kIo);
  EXPECT_TRUE(std::filesystem::is_regular_file(dir / "precious"));
}

TEST(ZmqTransport, PathsThatCannotBeAreRefusedByName) {
  const TempDir dir;
  auto transport = make();
  const std::string longest = dir / std::string(limits::kMaxIpcPathBytes - (dir / "").size(), 'x');
  ASSERT_EQ(longest.size(), static_cast<size_t>(limits::kMaxIpcPathBytes));
  EXPECT_TRUE(transport->bind("ipc://" + longest).ok());
  for (const std::string& path : {longest + "x", dir / "no/such/folder", std::string("*"), std::string("")}) {
    const Result<EndpointId> result = transport->bind("ipc://" + path);
    ASSERT_FALSE(result.ok()) << path;
    EXPECT_EQ(result.error().code, Errc::kIo);
    EXPECT_NE(result.error().message.find("ipc://" + path), std::string::npos) << result.error().message;
  }
  EXPECT_EQ(transport->connect("ipc://" + longest + "x", "me").error().code, Errc::kIo);
}

TEST(ZmqTransport, AMessageBeyondTheReceiversLimitIsNotTaken) {
  const TempDir dir;
  const std::string address = "ipc://" + (dir / "s");
  auto bound = make({.max_message_bytes = 1000});
  auto large = make({.flush_ns = 0}), small = make();
  ASSERT_TRUE(bound->bind(address).ok());
  const EndpointId large_door = large->connect(address, "large").value();
  ASSERT_TRUE(large->send(large_door, "", std::vector<std::byte>(1001)).ok());
  const EndpointId small_door = small->connect(address, "small").value();
  ASSERT_TRUE(small->send(small_door, "", std::vector<std::byte>(1000)).ok());
  const std::optional<Packet> packet = take(*bound);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->peer, "small");
  EXPECT_EQ(packet->bytes.size(), 1000u);
  EXPECT_FALSE(take(*bound, 50 * kMs));
}

// Peers that speak ZeroMQ but not as this program does: without a name, or in several parts.
TEST(ZmqTransport, StrangersAreDropped) {
  const TempDir dir;
  const std::string address = "ipc://" + (dir / "s");
  auto bound = make(), peer = make();
  ASSERT_TRUE(bound->bind(address).ok());

  zmq::context_t context;
  zmq::socket_t nameless(context, zmq::socket_type::dealer);
  nameless.connect(address);
  nameless.send(zmq::str_buffer("who am I"), zmq::send_flags::none);
  zmq::socket_t wordy(context, zmq::socket_type::dealer);
  wordy.set(zmq::sockopt::routing_id, "wordy");
  wordy.connect(address);
  for (int i = 0; i < 300; ++i) {
    wordy.send(zmq::str_buffer("one"), zmq::send_flags::sndmore);
    wordy.send(zmq::str_buffer("two"), zmq::send_flags::sndmore);
    wordy.send(zmq::str_buffer("three"), zmq::send_flags::none);
  }
  wordy.send(zmq::str_buffer("in one part"), zmq::send_flags::none);
  const std::optional<Packet> packet = take(*bound);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->peer, "wordy");
  EXPECT_EQ(text_of(*packet), "in one part");
  EXPECT_FALSE(take(*bound, 50 * kMs));
}

}  // namespace
}  // namespace krait::transport::test
