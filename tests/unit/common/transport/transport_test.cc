// What every transport does, ZeroMQ's and the loopback alike.
#include "common/transport/transport.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/common/transport/fabric.h"

namespace krait::transport::test {

std::string Fabric::address() {
  ++count_;
  if (kind_ == "loop") return fmt::format("loop://place-{}", count_);
  if (kind_ == "ipc") return fmt::format("ipc://{}", dir_ / fmt::format("s{}", count_));
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(any);
  CHECK_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
  CHECK_EQ(getsockname(probe, reinterpret_cast<sockaddr*>(&any), &size), 0);
  close(probe);
  return fmt::format("tcp://127.0.0.1:{}", ntohs(any.sin_port));
}

namespace {

class EveryTransport : public testing::TestWithParam<const char*> {
 protected:
  Fabric fabric(int high_water_mark = limits::kWireHighWaterMark) { return Fabric(GetParam(), high_water_mark); }
};

EndpointId ok(Result<EndpointId> endpoint) {
  return std::move(endpoint).value();
}

std::string number_text(int number) {
  return fmt::format("message {}", number);
}

TEST_P(EveryTransport, MessagesGoBothWaysWithNames) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto leader = net.make(), first = net.make(), second = net.make();
  const EndpointId hall = ok(leader->bind(address));
  const EndpointId door1 = ok(first->connect(address, "rank-1"));
  const EndpointId door2 = ok(second->connect(address, "rank-2"));
  ASSERT_TRUE(first->send(door1, "", bytes_of("from one")).ok());
  ASSERT_TRUE(second->send(door2, "", bytes_of("from two")).ok());

  std::map<std::string, std::string> heard;
  for (int i = 0; i < 2; ++i) {
    const std::optional<Packet> packet = take(*leader);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->endpoint, hall);
    heard[packet->peer] = text_of(*packet);
  }
  EXPECT_EQ(heard, (std::map<std::string, std::string>{{"rank-1", "from one"}, {"rank-2", "from two"}}));

  ASSERT_TRUE(leader->send(hall, "rank-2", bytes_of("to two")).ok());
  ASSERT_TRUE(leader->send(hall, "rank-1", {}).ok());
  const std::optional<Packet> at_two = take(*second);
  ASSERT_TRUE(at_two);
  EXPECT_EQ(at_two->endpoint, door2);
  EXPECT_EQ(at_two->peer, "");
  EXPECT_EQ(text_of(*at_two), "to two");
  const std::optional<Packet> at_one = take(*first);
  ASSERT_TRUE(at_one);
  EXPECT_EQ(text_of(*at_one), "");
  EXPECT_FALSE(first->receive());
}

TEST_P(EveryTransport, AConnectionMayComeFirst) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto early = net.make(), late = net.make();
  const EndpointId door = ok(early->connect(address, "early"));
  ASSERT_TRUE(early->send(door, "", bytes_of("waiting")).ok());
  ok(late->bind(address));
  const std::optional<Packet> packet = take(*late);
  ASSERT_TRUE(packet);
  EXPECT_EQ(text_of(*packet), "waiting");
}

TEST_P(EveryTransport, TenThousandInOrderEachWay) {
  constexpr int kCount = 10'000;
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make(), peer = net.make();
  const EndpointId hall = ok(bound->bind(address));
  const EndpointId door = ok(peer->connect(address, "peer"));
  for (int i = 0; i < kCount; ++i)
    ASSERT_TRUE(peer->send(door, "", bytes_of(number_text(i))).ok()) << i;
  for (int i = 0; i < kCount; ++i) {
    const std::optional<Packet> packet = take(*bound);
    ASSERT_TRUE(packet);
    ASSERT_EQ(text_of(*packet), number_text(i));
  }
  for (int i = 0; i < kCount; ++i)
    ASSERT_TRUE(bound->send(hall, "peer", bytes_of(number_text(i))).ok()) << i;
  for (int i = 0; i < kCount; ++i) {
    const std::optional<Packet> packet = take(*peer);
    ASSERT_TRUE(packet);
    ASSERT_EQ(text_of(*packet), number_text(i));
  }
}

TEST_P(EveryTransport, LargeMessagesArriveWhole) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make(), peer = net.make();
  ok(bound->bind(address));
  const EndpointId door = ok(peer->connect(address, "peer"));
  std::vector<std::byte> large(limits::kMaxWireMessageBytes / 4);
  for (size_t i = 0; i < large.size(); i += 4096)
    large[i] = static_cast<std::byte>(i / 4096);
  ASSERT_TRUE(peer->send(door, "", large).ok());
  const std::optional<Packet> packet = take(*bound);
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->bytes == large);

  large.resize(limits::kMaxWireMessageBytes + 1);
  const Status too_large = peer->send(door, "", std::move(large));
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code, Errc::kTooLarge);
}

TEST_P(EveryTransport, AnUnknownPeerIsUnavailable) {
  Fabric net = fabric();
  auto bound = net.make();
  const EndpointId hall = ok(bound->bind(net.address()));
  const Status status = bound->send(hall, "nobody", bytes_of("hello"));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Errc::kUnavailable);
  EXPECT_NE(status.error().message.find("nobody"), std::string::npos);
}

TEST_P(EveryTransport, APeerThatLeftBecomesUnavailable) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make(), peer = net.make();
  const EndpointId hall = ok(bound->bind(address));
  ASSERT_TRUE(peer->send(ok(peer->connect(address, "peer")), "", bytes_of("here")).ok());
  ASSERT_TRUE(take(*bound));
  peer.reset();
  bool gone = false;
  for (int i = 0; i < 6000 && !gone; ++i) {
    gone = !bound->send(hall, "peer", bytes_of("still there?")).ok();
    if (!gone) bound->wait(10 * kMs);
  }
  EXPECT_TRUE(gone);
}

// Whatever was accepted arrives, in order; what was not accepted was refused aloud.
TEST_P(EveryTransport, AFullQueueIsUnavailableAndLosesNothing) {
  constexpr int kMark = 4;
  constexpr int kFarTooMany = 100'000;
  Fabric net = fabric(kMark);
  const std::string address = net.address();
  auto bound = net.make_impatient(), peer = net.make_impatient();
  const EndpointId hall = ok(bound->bind(address));
  const EndpointId door = ok(peer->connect(address, "peer"));
  ASSERT_TRUE(peer->send(door, "", bytes_of("hello")).ok());
  ASSERT_TRUE(take(*bound));

  const auto fill_and_drain = [&](Transport& from, EndpointId endpoint, const std::string& to, Transport& reader) {
    int accepted = 0;
    while (accepted < kFarTooMany) {
      std::vector<std::byte> bytes = bytes_of(number_text(accepted));
      bytes.resize(16 * 1024);
      const Status status = from.send(endpoint, to, std::move(bytes));
      if (!status.ok()) {
        EXPECT_EQ(status.error().code, Errc::kUnavailable);
        break;
      }
      ++accepted;
    }
    EXPECT_GE(accepted, kMark / 2);  // ZeroMQ gives room back in halves of the mark.
    EXPECT_LT(accepted, kFarTooMany);
    for (int i = 0; i < accepted; ++i) {
      const std::optional<Packet> packet = take(reader);
      ASSERT_TRUE(packet) << i << " of " << accepted;
      ASSERT_EQ(text_of(*packet).substr(0, number_text(i).size()), number_text(i));
    }
    EXPECT_FALSE(take(reader, 50 * kMs));
  };
  fill_and_drain(*peer, door, "", *bound);
  fill_and_drain(*bound, hall, "peer", *peer);
}

TEST_P(EveryTransport, AQueueForNobodyIsLimited) {
  constexpr int kMark = 8;
  Fabric net = fabric(kMark);
  auto peer = net.make_impatient();
  const EndpointId door = ok(peer->connect(net.address(), "peer"));
  int accepted = 0;
  while (accepted < 1000 && peer->send(door, "", bytes_of("x")).ok())
    ++accepted;
  EXPECT_GE(accepted, 1);
  EXPECT_LE(accepted, 2 * kMark);
}

TEST_P(EveryTransport, APeerThatComesBackTakesOver) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make_impatient();
  const EndpointId hall = ok(bound->bind(address));
  for (int life = 0; life < 10; ++life) {
    auto peer = net.make_impatient();
    const EndpointId door = ok(peer->connect(address, "rank-3"));
    ASSERT_TRUE(peer->send(door, "", bytes_of(fmt::format("life {}", life))).ok());
    const std::optional<Packet> hello = take(*bound);
    ASSERT_TRUE(hello) << "life " << life;
    EXPECT_EQ(hello->peer, "rank-3");
    ASSERT_EQ(text_of(*hello), fmt::format("life {}", life));
    ASSERT_TRUE(bound->send(hall, "rank-3", bytes_of(fmt::format("welcome {}", life))).ok());
    const std::optional<Packet> welcome = take(*peer);
    ASSERT_TRUE(welcome) << "life " << life;
    EXPECT_EQ(text_of(*welcome), fmt::format("welcome {}", life));
    // For the next one to find in the way: it is not read by this life, nor by a later one.
    (void)bound->send(hall, "rank-3", bytes_of("too late"));
  }
}

TEST_P(EveryTransport, ABoundSideThatComesBackIsFoundAgain) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto peer = net.make();
  const EndpointId door = ok(peer->connect(address, "peer"));
  for (int life = 0; life < 3; ++life) {
    auto bound = net.make_impatient();
    const EndpointId hall = ok(bound->bind(address));
    // What was said to the life before may be lost with it, so the peer says it until it is heard.
    std::optional<Packet> packet;
    for (int i = 0; i < 3000 && !packet; ++i) {
      ASSERT_TRUE(peer->send(door, "", bytes_of("hello")).ok());
      packet = take(*bound, 20 * kMs);
    }
    ASSERT_TRUE(packet) << "life " << life;
    EXPECT_EQ(packet->peer, "peer");
    ASSERT_TRUE(bound->send(hall, "peer", bytes_of(fmt::format("life {}", life))).ok());
    const std::optional<Packet> answer = take(*peer);
    ASSERT_TRUE(answer);
    EXPECT_EQ(text_of(*answer), fmt::format("life {}", life));
  }
}

TEST_P(EveryTransport, WhatWasQueuedAtTheEndStillArrives) {
  constexpr int kCount = 200;
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make(), peer = net.make();
  ok(bound->bind(address));
  const EndpointId door = ok(peer->connect(address, "peer"));
  for (int i = 0; i < kCount; ++i)
    ASSERT_TRUE(peer->send(door, "", bytes_of(number_text(i))).ok());
  peer.reset();
  for (int i = 0; i < kCount; ++i) {
    const std::optional<Packet> packet = take(*bound);
    ASSERT_TRUE(packet);
    ASSERT_EQ(text_of(*packet), number_text(i));
  }
}

TEST_P(EveryTransport, TheEndWaitsNotForEver) {
  Fabric net = fabric();
  auto peer = net.make_impatient();
  ASSERT_TRUE(peer->send(ok(peer->connect(net.address(), "peer")), "", bytes_of("for nobody")).ok());
  peer.reset();
}

TEST_P(EveryTransport, WakeEndsTheCurrentOrTheNextWait) {
  Fabric net = fabric();
  auto transport = net.make();
  ok(transport->bind(net.address()));
  transport->wake();
  transport->wait(std::numeric_limits<int64_t>::max());  // would be an hour
  std::thread waker([&] { transport->wake(); });
  transport->wait(std::numeric_limits<int64_t>::max());
  waker.join();
  transport->wait(0);
  transport->wait(-5);
}

TEST_P(EveryTransport, AMessageEndsAWait) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto bound = net.make(), peer = net.make();
  ok(bound->bind(address));
  const EndpointId door = ok(peer->connect(address, "peer"));
  std::thread sender([&] { ASSERT_TRUE(peer->send(door, "", bytes_of("now")).ok()); });
  std::optional<Packet> packet;
  for (int i = 0; i < 100 && !packet; ++i) {
    bound->wait(3600 * kSecond);
    packet = bound->receive();
  }
  sender.join();
  ASSERT_TRUE(packet);
  EXPECT_EQ(text_of(*packet), "now");
}

// An endpoint that never falls silent does not keep another from being heard.
TEST_P(EveryTransport, NoEndpointStarvesAnother) {
  Fabric net = fabric(64);
  const std::string loud_address = net.address(), quiet_address = net.address();
  auto reader = net.make_impatient(), loud = net.make_impatient(), quiet = net.make_impatient();
  ok(reader->bind(loud_address));
  const EndpointId quiet_hall = ok(reader->bind(quiet_address));
  const EndpointId loud_door = ok(loud->connect(loud_address, "loud"));
  const EndpointId quiet_door = ok(quiet->connect(quiet_address, "quiet"));
  std::atomic<bool> stop = false;
  std::thread flood([&] {
    while (!stop)
      (void)loud->send(loud_door, "", bytes_of("noise"));
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(quiet->send(quiet_door, "", bytes_of("word")).ok());
  int heard = 0;
  for (int i = 0; i < 5'000'000 && heard < 20; ++i) {
    const std::optional<Packet> packet = reader->receive();
    if (packet && packet->endpoint == quiet_hall) ++heard;
  }
  stop = true;
  flood.join();
  EXPECT_EQ(heard, 20);
}

TEST_P(EveryTransport, AnAddressInUseIsRefusedAndItsOwnerUnharmed) {
  Fabric net = fabric();
  const std::string address = net.address();
  auto owner = net.make(), thief = net.make(), peer = net.make();
  ok(owner->bind(address));
  const Result<EndpointId> stolen = thief->bind(address);
  ASSERT_FALSE(stolen.ok());
  EXPECT_EQ(stolen.error().code, Errc::kIo);
  EXPECT_NE(stolen.error().message.find(address), std::string::npos) << stolen.error().message;
  ASSERT_TRUE(peer->send(ok(peer->connect(address, "peer")), "", bytes_of("hello")).ok());
  EXPECT_TRUE(take(*owner));
}

TEST_P(EveryTransport, StrangeAddressesAndNamesAreRefused) {
  Fabric net = fabric();
  auto transport = net.make();
  for (const char* address : {"", "ipc:", "inproc://x", "tcp//1", "loop:/x"}) {
    EXPECT_EQ(transport->bind(address).error().code, Errc::kIo) << address;
    EXPECT_EQ(transport->connect(address, "me").error().code, Errc::kIo) << address;
  }
  const std::string address = net.address();
  for (const std::string& name :
       {std::string(), std::string(limits::kMaxPeerNameBytes + 1, 'x'), std::string("a b"), std::string("\0a", 2)}) {
    EXPECT_EQ(transport->connect(address, name).error().code, Errc::kInvalidArgument);
  }
  EXPECT_TRUE(transport->connect(address, std::string(limits::kMaxPeerNameBytes, 'x')).ok());
}

INSTANTIATE_TEST_SUITE_P(All, EveryTransport, testing::Values("loop", "ipc", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace krait::transport::test
