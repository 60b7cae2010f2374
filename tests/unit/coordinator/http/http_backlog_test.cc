// What waits for its reader is bounded: streams that fall behind, whole answers, trickles, all together.
#include "common/base/limits.h"
#include "tests/unit/coordinator/http/server_fixture.h"

namespace krait::http {
namespace {

class HttpBacklog : public ServerTest {
 protected:
  static Options small_buffers() {
    Options options;
    options.max_stream_backlog_bytes = 100'000;
    options.send_buffer_bytes = 16 * kKiB;
    return options;
  }
  void wait_for_nothing_unsent() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (server_->stats().unsent_bytes != 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(server_->stats().unsent_bytes, 0);
  }
};

TEST_F(HttpBacklog, WhatTheRequestMadeLargeIsNotBehind) {
  start(small_buffers());
  TestClient client(server_->port(), 4096);
  client.send(get("/hold"));
  const auto stream = held();
  ASSERT_TRUE(stream);
  stream->begin_stream(200, {});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(stream->write_bulk(std::string(1'000'000, 'b')));
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(stream->write(std::string(1000, 'l'))) << "live parts count alone";
  std::thread reader([&] {
    const auto response = client.receive();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body.size(), 3'050'000u);
  });
  stream->end();
  reader.join();
  wait_for_nothing_unsent();
}

TEST_F(HttpBacklog, ALiveStreamIsCutAlsoBehindBulk) {
  start(small_buffers());
  TestClient client(server_->port(), 4096);
  client.send(get("/hold"));
  const auto stream = held();
  ASSERT_TRUE(stream);
  Event closed;
  stream->on_close([&] { closed.set(); });
  stream->begin_stream(200, {});
  stream->write_bulk(std::string(1'000'000, 'b'));
  int64_t live = 0;
  while (live < 10'000'000 && stream->write(std::string(1000, 'l')))
    live += 1000;
  EXPECT_TRUE(closed.wait());
  EXPECT_GE(live, 90'000);
  EXPECT_LT(live, 110'000);
  wait_for_nothing_unsent();
}

TEST_F(HttpBacklog, AllAnswersTogetherAreBounded) {
  Options options = small_buffers();
  options.max_unsent_bytes = 1'000'000;
  start(options);
  TestClient stalled(server_->port(), 4096);
  stalled.send(get("/hold"));
  held()->respond(200, {}, std::string(950'000, 'w'));
  TestClient second(server_->port());
  second.send(get("/hold"));
  held(2)->respond(200, {}, std::string(300'000, 'w'));
  const auto refused = second.receive();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_NE(refused.body.find("\"overloaded\""), std::string::npos);
  second.send(get("/hold"));
  held(3)->respond(200, {}, std::string(60'000, 's'));
  EXPECT_EQ(second.receive().body.size(), 60'000u) << "small ones are always sent";
  stalled.reset();
  wait_for_nothing_unsent();
  second.send(get("/hold"));
  held(4)->respond(200, {}, std::string(300'000, 'w'));
  EXPECT_EQ(second.receive().body.size(), 300'000u);
}

TEST_F(HttpBacklog, ATrickleHoldsAnAnswerNoLongerThanAStallDoes) {
  Options options = small_buffers();
  options.stall_timeout_ns = 500 * kMs;
  start(options);
  TestClient client(server_->port(), 4096);
  client.send(get("/hold"));
  held()->respond(200, {}, std::string(20'000'000, 'w'));
  size_t taken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (server_->stats().connections > 0 && std::chrono::steady_clock::now() < end) {
    taken += client.take(500);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(server_->stats().connections, 0) << "after " << taken << " bytes";
  EXPECT_LT(taken, 10'000'000u);
  EXPECT_FALSE(logged().complete);
}

TEST_F(HttpBacklog, ASteadyReaderIsLeftAlone) {
  Options options = small_buffers();
  options.stall_timeout_ns = 1000 * kMs;
  start(options);
  TestClient client(server_->port(), 4096);
  client.send(get("/hold"));
  held()->respond(200, {}, std::string(3'000'000, 'w'));
  size_t taken = 0;
  for (size_t bytes = 1; bytes > 0 && taken < 3'000'000; taken += bytes) {
    bytes = client.take(20'000);
    if (taken < 500'000) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(taken, 3'000'000u);
  EXPECT_TRUE(logged().complete);
}

}  // namespace
}  // namespace krait::http
