// How a server ends: what has begun may end, or is told.
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "coordinator/http/http_server.h"
#include "tests/unit/coordinator/http/server_fixture.h"

namespace krait::http {
namespace {

using HttpDrainTest = ServerTest;

/// Sends the first part of a request and waits until the server has seen it.
void begin(TestClient& client, HttpServer& server, std::string_view part) {
  const int64_t before = server.stats().unread_requests;
  client.send(part);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (server.stats().unread_requests == before) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "nobody counts the request that has begun";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(HttpDrainTest, ARequestThatHasBegunMayEndWhenTheServerDoes) {
  start();
  TestClient idle(server_->port());
  TestClient in_header(server_->port());
  TestClient in_body(server_->port());
  EXPECT_EQ(idle.request(get("/echo")).status, 200);
  begin(in_header, *server_, "GET /echo HTTP/1.1\r\nHo");
  begin(in_body, *server_, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(in_body.receive().status, 100);
  server_->end_idle();
  EXPECT_TRUE(idle.wait_for_end());
  EXPECT_FALSE(server_->drain(50 * kMs)) << "two have begun";
  for (auto [client, rest] : {std::pair(&in_header, "st: a\r\n\r\n"), std::pair(&in_body, "body")}) {
    const Response response = client->request(rest);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client->wait_for_end());
  }
  TestClient late(server_->port());
  EXPECT_EQ(late.request(get("/echo")).header("connection"), "close") << "it is told, and goes";
  EXPECT_TRUE(server_->drain(20 * kSecond));
  EXPECT_EQ(server_->stats().unread_requests, 0);
}

TEST_F(HttpDrainTest, ARequestThatDoesNotComeWholeInTimeIsToldSo) {
  start();
  TestClient in_header(server_->port());
  TestClient in_body(server_->port());
  begin(in_header, *server_, "GET /echo HTTP/1.1\r\nHo");
  begin(in_body, *server_,
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + std::string(5000, 'x'));
  server_->stop_accepting();
  EXPECT_FALSE(server_->drain(50 * kMs)) << "they may be reading why";
  in_body.send(std::string(100'000, 'x'));  // what was on its way must not destroy the answer
  std::thread stopping([&] {
    server_->drain(2 * kSecond);
    server_->stop();
  });
  for (TestClient* client : {&in_header, &in_body}) {
    const Response response = client->receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_EQ(response.header("retry-after"), "1");
    EXPECT_TRUE(response.complete);
    EXPECT_TRUE(client->wait_for_end());
    EXPECT_FALSE(client->was_reset());
  }
  stopping.join();
  EXPECT_EQ(logged(2).status, 503);
}

TEST_F(HttpDrainTest, DrainsOpenRequestsAndTakesNoNewOnes) {
  start();
  TestClient idle(server_->port());
  EXPECT_EQ(idle.request(get("/echo")).status, 200);
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  server_->stop_accepting();
  EXPECT_TRUE(idle.wait_for_end());
  EXPECT_FALSE(server_->drain(50 * kMs)) << "one is still open";
  std::thread answer([&] {
    responder->begin_stream(200, {});
    responder->write("the rest");
    responder->end();
  });
  EXPECT_TRUE(server_->drain(20 * kSecond));
  answer.join();
  const Response response = client.receive();
  EXPECT_EQ(response.body, "the rest");
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_TRUE(client.wait_for_end());
  TestClient late(server_->port());
  EXPECT_FALSE(late.connected() && late.request(get("/echo")).status == 200);
}

}  // namespace
}  // namespace krait::http
