// The core's turns between its sockets: what comes that is no message.
#include "coordinator/requests/core_loop.h"

#include <gtest/gtest.h>

#include "common/base/limits.h"
#include "common/base/log_capture.h"
#include "common/transport/loopback_transport.h"

namespace krait::test {
namespace {

TEST(CoreLoop, AGroupThatSpeaksAnotherProtocolIsLoggedNowAndAgainAndCountedEachTime) {
  std::vector<std::string> warnings;
  capture_log([&](LogLevel, std::string_view message) { warnings.emplace_back(message); });
  int counted = 0;
  requests::CoreObserver observer;
  observer.on_bad_message = [&] { ++counted; };
  requests::CoreOptions options;
  options.name = "coordinator";
  options.groups = {"g0", "g1"};
  options.addresses = {"loop://g0", "loop://g1"};
  const auto hub = transport::make_loopback_hub();
  const auto leaders = transport::make_loopback_transport(hub);
  const std::vector<transport::EndpointId> endpoints{leaders->bind("loop://g0").value(),
                                                     leaders->bind("loop://g1").value()};
  const auto own = transport::make_loopback_transport(hub);
  ManualClock clock{1};
  requests::CoreLoop loop(options, *own, clock, observer);
  ASSERT_TRUE(loop.connect().ok());
  loop.turn();
  const std::vector<std::byte> noise(40, std::byte{0x5a});
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(leaders->send(endpoints[0], "coordinator", noise).ok());
    if (i == 100) ASSERT_TRUE(leaders->send(endpoints[1], "coordinator", noise).ok());
    clock.advance(limits::kNextWaitWordNs / 300);
    loop.turn();
  }
  capture_log(nullptr);
  EXPECT_EQ(counted, 501);
  ASSERT_EQ(warnings.size(), 3u) << "two of the first, one of the second";
  EXPECT_TRUE(warnings[1].starts_with("1 message(s) of the group at loop://g1 could not be read")) << warnings[1];
  EXPECT_TRUE(warnings[2].starts_with("300 message(s) of the group at loop://g0 could not be read")) << warnings[2];
}

}  // namespace
}  // namespace krait::test
