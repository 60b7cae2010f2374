// What well-behaved clients see.
#include "coordinator/http/http_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "coordinator/http/sse.h"
#include "tests/unit/coordinator/http/server_fixture.h"

namespace krait::http {
namespace {

using HttpServerTest = ServerTest;

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start();
  TestClient client(server_->port());
  for (int i = 0; i < 3; ++i) {
    const Response response = client.request(post("/echo?n=" + std::to_string(i), "body", "x-request-id: id-7\r\n"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST body");
    EXPECT_EQ(response.header("x-query"), "n=" + std::to_string(i));
    EXPECT_EQ(response.header("x-request-id"), "id-7");
    EXPECT_EQ(response.header("connection"), "");
  }
  EXPECT_EQ(client.request(get("/none")).status, 404);
  const Response last = client.request(get("/echo", "Connection: close\r\n"));
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(client.wait_for_end());
  EXPECT_FALSE(client.was_reset());

  const AccessRecord record = logged(5);
  EXPECT_EQ(log_[0].method, "POST");
  EXPECT_EQ(log_[0].path, "/echo");
  EXPECT_EQ(log_[0].status, 200);
  EXPECT_EQ(log_[0].body_bytes, 9);
  EXPECT_EQ(log_[0].request_id, "id-7");
  EXPECT_TRUE(log_[0].complete);
  EXPECT_GT(log_[0].duration_ns, 0);
  EXPECT_TRUE(log_[0].peer.starts_with("127.0.0.1:"));
  EXPECT_EQ(log_[3].status, 404);
  EXPECT_TRUE(record.request_id.starts_with("req-"));
}

TEST_F(HttpServerTest, MakesARequestIdWhereTheClientsIsBad) {
  start();
  TestClient client(server_->port());
  const Response first = client.request(get("/echo", "x-request-id: a b\r\n"));
  const Response second = client.request(get("/echo"));
  EXPECT_TRUE(first.header("x-request-id").starts_with("req-"));
  EXPECT_TRUE(second.header("x-request-id").starts_with("req-"));
  EXPECT_NE(first.header("x-request-id"), second.header("x-request-id"));
}

TEST_F(HttpServerTest, StreamsInChunksFromAnotherThread) {
  start();
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  Event closed;
  responder->on_close([&] { closed.set(); });
  std::thread writer([&] {
    responder->begin_stream(200, sse_headers());
    responder->respond(500, {}, "too late");
    for (int i = 0; i < 100; ++i)
      EXPECT_TRUE(responder->write(sse_event(std::to_string(i))));
    EXPECT_TRUE(responder->write(""));
    EXPECT_TRUE(responder->is_open());
    responder->end();
    EXPECT_FALSE(responder->is_open());
    EXPECT_FALSE(responder->write("too late"));
    responder->end();
  });
  const Response response = client.receive();
  writer.join();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.chunked);
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(response.body.starts_with("data: 0\n\ndata: 1\n\n"));
  EXPECT_TRUE(response.body.ends_with("data: 99\n\n"));
  EXPECT_EQ(logged().body_bytes, static_cast<int64_t>(response.body.size()));
  EXPECT_EQ(client.request(get("/echo")).status, 200) << "the connection goes on";
  client.close();
  EXPECT_TRUE(wait_for_no_connections());
  EXPECT_FALSE(closed.is_set()) << "an answer that is complete has no on_close";
}

TEST_F(HttpServerTest, FirstBytesOfAStreamDoNotWaitForMore) {
  start();
  TestClient client(server_->port());
  client.send(get("/hold"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  responder->begin_stream(200, {});
  EXPECT_TRUE(client.wait_for("\r\n\r\n"));
  responder->write("one");
  EXPECT_TRUE(client.wait_for("3\r\none\r\n"));
  responder->write("two");
  EXPECT_TRUE(client.wait_for("3\r\ntwo\r\n"));
  responder->end();
  EXPECT_TRUE(client.wait_for("0\r\n\r\n"));
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  start();
  {
    TestClient client(server_->port());
    const Response response = client.request("GET /echo HTTP/1.0\r\n\r\n");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client.wait_for_end());
  }
  {
    TestClient client(server_->port());
    for (int i = 0; i < 2; ++i) {
      const Response response = client.request("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
      EXPECT_EQ(response.status, 200);
      EXPECT_EQ(response.header("connection"), "keep-alive");
    }
  }
  TestClient client(server_->port());
  client.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto responder = held();
  ASSERT_TRUE(responder);
  responder->begin_stream(200, {});
  responder->write("to the ");
  responder->write("end");
  responder->end();
  const Response response = client.receive();
  EXPECT_FALSE(response.chunked);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(response.body, "to the end");
}

TEST_F(HttpServerTest, HeadHasTheHeadersAndNoBody) {
  paths_["/stream"] = [](const Request&, const std::shared_ptr<Responder>& responder) {
    responder->begin_stream(200, {});
    EXPECT_TRUE(responder->write("hidden"));
    responder->end();
  };
  paths_["/empty"] = [](const Request&, const std::shared_ptr<Responder>& responder) {
    responder->respond(204, {}, "hidden");
  };
  start();
  TestClient client(server_->port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.receive(true).header("Content-Length"), "5");
  client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.receive(true).status, 200);
  EXPECT_EQ(client.request(get("/empty")).status, 204);
  EXPECT_EQ(client.request(get("/echo")).body, "GET ") << "nothing of the bodies was left on the connection";
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  TestClient client(server_->port());
  client.send(get("/hold") + post("/echo", "second") + get("/none") + post("/echo", "fourth"));
  const auto responder = held();
  ASSERT_TRUE(responder);
  responder->respond(200, {}, "first");
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.receive().body, "POST second");
  EXPECT_EQ(client.receive().status, 404);
  EXPECT_EQ(client.receive().body, "POST fourth");
}

TEST_F(HttpServerTest, PipelinesMoreThanItReadsAhead) {
  start();
  TestClient client(server_->port());
  const std::string body(3000, 'b');
  constexpr int kRequests = 200;  // 600 KB, against 64 KiB that are read ahead
  std::thread sender([&] {
    client.send(get("/hold"));
    for (int i = 0; i < kRequests; ++i)
      client.send(post("/echo", body + std::to_string(i)));
  });
  const auto responder = held();
  ASSERT_TRUE(responder);
  responder->respond(200, {}, "first");
  EXPECT_EQ(client.receive().body, "first");
  for (int i = 0; i < kRequests; ++i)
    ASSERT_EQ(client.receive().body, "POST " + body + std::to_string(i));
  sender.join();
}

TEST_F(HttpServerTest, TakesChunkedAndExpectedBodies) {
  start();
  TestClient client(server_->port());
  const Response chunked = client.request(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n6\r\n other\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.body, "POST half other");
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send("late");
  EXPECT_EQ(client.receive().body, "POST late");
  // A body that is refused anyway is not asked for.
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413);
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpServerTest, CarriesLargeBodiesBothWays) {
  start();
  TestClient client(server_->port());
  std::string body(limits::kMaxBodyBytes, 'x');
  for (size_t i = 0; i < body.size(); i += 997)
    body[i] = static_cast<char>(i);
  std::thread sender([&] { client.send(post("/echo", body)); });
  const Response response = client.receive();
  sender.join();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.body == "POST " + body);
  EXPECT_EQ(server_->stats().buffered_body_bytes, 0);
}

TEST_F(HttpServerTest, TurnsAForgottenOrFailedRequestIntoAnAnswer) {
  paths_["/forget"] = [](const Request&, const std::shared_ptr<Responder>&) {};
  paths_["/throw"] = [](const Request&, const std::shared_ptr<Responder>&) { throw std::runtime_error("secret"); };
  paths_["/cut"] = [](const Request&, const std::shared_ptr<Responder>& responder) {
    responder->begin_stream(200, {});
    responder->write("half");
  };
  start();
  TestClient client(server_->port());
  for (const char* path : {"/forget", "/throw"}) {
    const Response response = client.request(get(path));
    EXPECT_EQ(response.status, 500);
    const auto error = nlohmann::json::parse(response.body)["error"];
    EXPECT_EQ(error["type"], "server_error");
    EXPECT_EQ(response.body.find("secret"), std::string::npos);
  }
  const Response cut = client.request(get("/cut"));
  EXPECT_FALSE(cut.complete) << "a stream that was dropped must not look complete";
}

TEST_F(HttpServerTest, AnswersAThousandQuickRequests) {
  start();
  TestClient client(server_->port());
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(client.request(get("/echo")).status, 200);
  EXPECT_TRUE(logged(1000).complete);
  for (int i = 0; i < 300; ++i) {
    TestClient once(server_->port());
    ASSERT_EQ(once.request(get("/echo", "Connection: close\r\n")).status, 200);
  }
  client.close();
  EXPECT_TRUE(wait_for_no_connections());
  EXPECT_EQ(server_->stats().open_requests, 0);
}

TEST_F(HttpServerTest, ServesManyConnectionsAtOnce) {
  Options options;
  options.threads = 4;
  start(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<TestClient>> clients;
      for (int i = 0; i < 25; ++i)
        clients.push_back(std::make_unique<TestClient>(server_->port()));
      for (int round = 0; round < 5; ++round) {
        for (auto& client : clients)
          client->send(post("/echo", std::to_string(t * 100 + round)));
        for (auto& client : clients) {
          EXPECT_EQ(client->receive().body, "POST " + std::to_string(t * 100 + round));
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_TRUE(wait_for_no_connections());
}

TEST_F(HttpServerTest, RefusesToStartWhereItCannotListen) {
  start();
  Options options;
  options.port = server_->port();
  const auto taken = HttpServer::start(options, [](Request, std::shared_ptr<Responder>) {});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::kIo);
  EXPECT_NE(taken.error().message.find(std::to_string(options.port)), std::string::npos);
  options.host = "no.such.host";
  const auto nowhere = HttpServer::start(options, [](Request, std::shared_ptr<Responder>) {});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace krait::http
