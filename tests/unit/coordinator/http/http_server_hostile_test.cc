// What leaving, slow, greedy and broken clients see, and that nobody else does.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "coordinator/http/http_server.h"
#include "tests/unit/coordinator/http/server_fixture.h"

namespace krait::http {
namespace {

using HttpServerHostileTest = ServerTest;
using SteadyTime = std::chrono::steady_clock;

void expect_error(const Response& response, int status, std::string_view code) {
  EXPECT_EQ(response.status, status);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(response.header("content-type"), "application/json");
  EXPECT_FALSE(response.header("x-request-id").empty());
  const auto parsed = nlohmann::json::parse(response.body, nullptr, false);
  ASSERT_TRUE(parsed.is_object()) << response.body;
  EXPECT_EQ(parsed["error"]["code"], code);
  EXPECT_TRUE(parsed["error"]["message"].is_string());
  EXPECT_TRUE(parsed["error"].contains("param"));
  EXPECT_TRUE(parsed["error"]["type"].is_string());
}

// How long on_close takes after `leave`, when nothing is being written to the client.
int64_t ms_until_noticed(const std::shared_ptr<Responder>& responder, const std::function<void()>& leave) {
  Event closed;
  responder->on_close([&] { closed.set(); });
  const auto begin = SteadyTime::now();
  leave();
  EXPECT_TRUE(closed.wait());
  EXPECT_FALSE(responder->is_open());
  EXPECT_FALSE(responder->write("nobody reads this"));
  responder->respond(200, {}, "nor this");
  return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyTime::now() - begin).count();
}

// The least of several, since a busy machine may delay any one of them.
TEST_F(HttpServerHostileTest, NoticesAtOnceThatAClientLeft) {
  start();
  size_t requests = 0;
  const std::vector<std::pair<std::string, std::function<void(TestClient&)>>> ways = {
      {"closes", [](TestClient& client) { client.close(); }},
      {"resets", [](TestClient& client) { client.reset(); }},
      {"shuts its sending side down", [](TestClient& client) { client.shut_down_writing(); }},
  };
  for (const auto& [name, leave] : ways) {
    for (const bool streaming : {false, true}) {
      int64_t best_ms = kPatienceMs;
      for (int attempt = 0; attempt < 5; ++attempt) {
        TestClient client(server_->port());
        client.send(get("/hold"));
        const auto responder = held(++requests);
        ASSERT_TRUE(responder);
        if (streaming) {
          responder->begin_stream(200, {});
          responder->write("first");
          ASSERT_TRUE(client.wait_for("first"));
        }
        best_ms = std::min(best_ms, ms_until_noticed(responder, [&] { leave(client); }));
        const AccessRecord record = logged(requests);
        EXPECT_EQ(record.status, streaming ? 200 : 499);
        EXPECT_FALSE(record.complete);
      }
      EXPECT_LT(best_ms, 100) << "a client that " << name << (streaming ? " while streaming" : "");
    }
  }
  EXPECT_TRUE(wait_for_no_connections());
}

TEST_F(HttpServerHostileTest, NoticesItBehindRequestsThatAreNotReadAhead) {
  start();
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  // More than is read ahead, less than the kernel holds besides.
  for (int i = 0; i < 18; ++i)
    client.send(post("/echo", std::string(5000, 'b')));
  ms_until_noticed(responder, [&] { client.close(); });
}

TEST_F(HttpServerHostileTest, CallsOnCloseThatIsSetTooLate) {
  start();
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  client.close();
  EXPECT_FALSE(logged().complete);
  bool called = false;
  responder->on_close([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(HttpServerHostileTest, AHalfClosedClientGetsTheAnswersThatAreReady) {
  start();
  TestClient client(server_->port());
  client.send(post("/echo", "one") + post("/echo", "two"));
  client.shut_down_writing();
  EXPECT_EQ(client.receive().body, "POST one");
  EXPECT_EQ(client.receive().body, "POST two");
  EXPECT_TRUE(client.wait_for_end());
  TestClient partial(server_->port());
  partial.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  partial.shut_down_writing();
  expect_error(partial.receive(), 400, "invalid_argument");
}

TEST_F(HttpServerHostileTest, AnswersBrokenRequestsAndEndsTheConnection) {
  Options options;
  options.max_body_bytes = 1000;
  start(options);
  const std::vector<std::tuple<std::string, int, std::string>> cases = {
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400, "invalid_argument"},
      {"NONSENSE\r\n\r\n", 400, "invalid_argument"},
      {get("/", "bad header\r\n"), 400, "invalid_argument"},
      {"GET / HTTP/1.1\r\n\r\n", 400, "invalid_argument"},
      {get("/", "big: " + std::string(limits::kMaxHeaderBytes, 'h') + "\r\n"), 431, "headers_too_large"},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413, "too_large"},
      {post("/echo", std::string(2'000'000, 'b')), 413, "too_large"},
      {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413, "too_large"},
  };
  for (const auto& [bytes, status, code] : cases) {
    SCOPED_TRACE(bytes.substr(0, 60));
    TestClient client(server_->port());
    // The server ends its side before it has read all: the answer must arrive all the same.
    client.send(bytes);
    expect_error(client.receive(), status, code);
    EXPECT_TRUE(client.wait_for_end());
    EXPECT_FALSE(client.was_reset());
  }
  TestClient client(server_->port());
  EXPECT_EQ(client.request(get("/echo")).status, 200);
}

TEST_F(HttpServerHostileTest, GivesUpOnSlowRequests) {
  Options options;
  options.header_timeout_ns = 100 * kMs;
  options.body_timeout_ns = 100 * kMs;
  options.idle_timeout_ns = 100 * kMs;
  start(options);
  TestClient silent(server_->port());
  TestClient half_header(server_->port());
  half_header.send("GET /echo HTTP/1.1\r\nHos");
  TestClient half_body(server_->port());
  half_body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  TestClient idle(server_->port());
  EXPECT_EQ(idle.request(get("/echo")).status, 200);
  expect_error(half_header.receive(), 408, "request_timeout");
  expect_error(half_body.receive(), 408, "request_timeout");
  EXPECT_TRUE(half_body.wait_for_end());
  EXPECT_TRUE(silent.wait_for_end());
  EXPECT_TRUE(idle.wait_for_end());
}

// One byte now and then must not keep a request alive for ever.
TEST_F(HttpServerHostileTest, ADribblingClientIsStoppedToo) {
  Options options;
  options.header_timeout_ns = 200 * kMs;
  start(options);
  TestClient client(server_->port());
  std::thread dribble([&] {
    client.send("GET /echo HTTP/1.1\r\nHost: a\r\nslow: ");
    for (int i = 0; i < 4000 && client.send("x"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  expect_error(client.receive(), 408, "request_timeout");
  EXPECT_TRUE(wait_for_no_connections());
  dribble.join();
}

TEST_F(HttpServerHostileTest, AnAnswerMayTakeLongerThanAnyTimeOutOfReading) {
  Options options;
  options.header_timeout_ns = options.body_timeout_ns = options.idle_timeout_ns = 50 * kMs;
  options.stall_timeout_ns = 50 * kMs;
  start(options);
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_TRUE(responder->is_open());
  responder->respond(200, {}, "at last");
  EXPECT_EQ(client.receive().body, "at last");
}

TEST_F(HttpServerHostileTest, RefusesConnectionsOverTheLimit) {
  Options options;
  options.max_connections = 3;
  start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->port()));
    EXPECT_EQ(clients.back()->request(get("/echo")).status, 200);
  }
  TestClient refused(server_->port());
  refused.send(get("/echo"));
  const Response response = refused.receive();
  expect_error(response, 503, "unavailable");
  EXPECT_EQ(response.header("retry-after"), "1");
  EXPECT_TRUE(refused.wait_for_end());
  EXPECT_EQ(server_->stats().refused_connections, 1);
  EXPECT_EQ(clients[0]->request(get("/echo")).status, 200) << "the others go on";
  clients.clear();
  ASSERT_TRUE(wait_for_no_connections());
  TestClient again(server_->port());
  EXPECT_EQ(again.request(get("/echo")).status, 200);
}

TEST_F(HttpServerHostileTest, AFloodOverTheLimitIsHeldOff) {
  Options options;
  options.max_connections = 2;
  start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 300; ++i)
    clients.push_back(std::make_unique<TestClient>(server_->port()));
  EXPECT_LE(server_->stats().connections, 2 + limits::kMaxRefusedConnections);
  EXPECT_TRUE(clients.back()->wait_for_end() || clients.back()->raw().starts_with("HTTP/1.1 503"));
  EXPECT_EQ(clients[0]->request(get("/echo")).status, 200);
}

TEST_F(HttpServerHostileTest, BoundsTheBodiesOfAllConnectionsTogether) {
  Options options;
  options.max_buffered_body_bytes = 10'000;
  start(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8000\r\n\r\n";
  TestClient first(server_->port());
  first.send(head + std::string(7999, 'a'));
  while (server_->stats().buffered_body_bytes < 7999)
    std::this_thread::yield();
  TestClient second(server_->port());
  second.send(head + std::string(7999, 'b'));
  expect_error(second.receive(), 503, "unavailable");
  first.send("a");
  EXPECT_EQ(first.receive().body.size(), 8005u);
  EXPECT_EQ(server_->stats().buffered_body_bytes, 0);
}

TEST_F(HttpServerHostileTest, CancelsAReaderThatFallsBehind) {
  Options options;
  options.max_stream_backlog_bytes = 100'000;
  options.send_buffer_bytes = 16 * kKiB;
  start(options);
  TestClient stalled(server_->port(), 4096);
  stalled.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  Event closed;
  responder->on_close([&] { closed.set(); });
  responder->begin_stream(200, {});
  const std::string chunk(1000, 'c');
  int64_t accepted = 0;
  while (responder->write(chunk) && accepted < 100 * kMiB)
    accepted += 1000;
  EXPECT_TRUE(closed.wait());
  EXPECT_GE(accepted, 90'000);
  EXPECT_LT(accepted, 2'000'000) << "the backlog and what the kernels hold";
  EXPECT_FALSE(logged().complete);
  TestClient other(server_->port());
  EXPECT_EQ(other.request(get("/echo")).status, 200);
}

TEST_F(HttpServerHostileTest, CancelsAReaderThatTakesNothing) {
  Options options;
  options.send_buffer_bytes = 16 * kKiB;
  options.stall_timeout_ns = 200 * kMs;
  start(options);
  TestClient stalled(server_->port(), 4096);
  stalled.send(get("/hold") + get("/hold"));
  const auto stream = held();
  ASSERT_TRUE(stream);
  Event closed;
  stream->on_close([&] { closed.set(); });
  stream->begin_stream(200, {});
  stream->write(std::string(500'000, 's'));
  EXPECT_TRUE(closed.wait()) << "far below the backlog's limit, but nothing moves";
  // A whole answer stalls just so; there is nobody to tell, but the connection goes.
  TestClient whole(server_->port(), 4096);
  whole.send(get("/hold"));
  held(2)->respond(200, {}, std::string(5'000'000, 'w'));
  EXPECT_FALSE(logged(2).complete);
  EXPECT_TRUE(wait_for_no_connections());
}

TEST_F(HttpServerHostileTest, StopsWithOpenStreams) {
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  std::atomic<int> closed{0};
  for (size_t i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_->port()));
    clients.back()->send(get("/hold"));
    const auto responder = held(i + 1);
    ASSERT_TRUE(responder);
    responder->on_close([&] { ++closed; });
    if (i % 2 == 0) responder->begin_stream(200, {});
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (size_t i = 0; !stop; i = (i + 2) % 20)
      held_[i]->write("text");
  });
  server_->stop();
  EXPECT_EQ(closed, 20);
  stop = true;
  writer.join();
  server_->stop();
  server_.reset();
  for (const auto& responder : held_) {
    EXPECT_FALSE(responder->write("after the server's end"));
    responder->respond(200, {}, "");
    responder->end();
  }
  EXPECT_EQ(log_.size(), 20u);
}

}  // namespace
}  // namespace krait::http
