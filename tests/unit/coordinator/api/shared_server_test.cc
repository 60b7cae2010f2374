// One server, many clients: who is who, what an answer may hold, and that news go out while others' bodies are read.
#include <future>

#include "tests/unit/coordinator/api/api_fixture.h"

namespace krait::api {
namespace {

using metrics::CounterId;

class SharedServer : public ApiFixture {
 protected:
  std::shared_ptr<FakeResponder> complete_as(const std::string& key, const std::string& fields = "") {
    http::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.headers.add("Authorization", "Bearer " + key);
    request.body = body_of(fields);
    return send(std::move(request));
  }
};

TEST_F(SharedServer, AClientIsItsKeyElseItsAddress) {
  ApiOptions options;
  options.api_keys = {"sk-alpha-secret", "sk-beta-secret"};
  start(std::move(options));
  complete_as("sk-alpha-secret");
  const auto alpha = leader->next<wire::Submit>().client;
  complete_as("sk-alpha-secret");
  EXPECT_EQ(leader->next<wire::Submit>().client, alpha);
  complete_as("sk-beta-secret");
  EXPECT_NE(leader->next<wire::Submit>().client, alpha);
  EXPECT_EQ(alpha.find("secret"), std::string::npos) << "keys go nowhere";
  EXPECT_TRUE(alpha.starts_with("key-"));

  http::Request request;
  request.peer = "[::1]:4711";
  EXPECT_EQ(api->client_of(request), "[::1]");
  request.headers.add("Authorization", "Basic abc");
  EXPECT_EQ(api->client_of(request), "[::1]");
  http::Request made_up;
  made_up.peer = "[::1]:4711";
  made_up.headers.add("Authorization", "Bearer made-up");
  EXPECT_EQ(api->client_of(made_up), "[::1]");
}

TEST_F(SharedServer, WithoutKeysAMadeUpOneIsNoClientOfItsOwn) {
  start();
  complete_as("one");
  EXPECT_EQ(leader->next<wire::Submit>().client, "127.0.0.1");
  complete_as("another");
  EXPECT_EQ(leader->next<wire::Submit>().client, "127.0.0.1");
}

TEST_F(SharedServer, WhoHasNoKeyTakesNobodysPlace) {
  ApiOptions options;
  options.threads = 1;
  options.max_waiting = 4;
  options.api_keys = {"good"};
  start(std::move(options));
  std::promise<void> gate;
  std::promise<void> held;
  api->executor().post("hog", [&held, opened = gate.get_future().share()] {
    held.set_value();
    opened.wait();
  });
  held.get_future().wait();
  for (int i = 0; i < 20; ++i) {
    const auto refused = complete_as(fmt::format("made up {}", i));
    ASSERT_TRUE(refused->complete()) << "said at once: it does not wait to be read";
    EXPECT_EQ(refused->status(), 401);
  }
  const auto client = complete_as("good");
  EXPECT_FALSE(client->complete());
  gate.set_value();
  leader->run(leader->next<wire::Submit>().request, "a");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 200);
}

TEST_F(SharedServer, ProbesDoNotWaitBehindRequests) {
  ApiOptions options;
  options.threads = 1;
  start(std::move(options));
  std::promise<void> gate;
  std::promise<void> held;
  api->executor().post("hog", [&held, opened = gate.get_future().share()] {
    held.set_value();
    opened.wait();
  });
  held.get_future().wait();
  for (const auto& [method, path] :
       {std::pair("GET", "/health"), std::pair("HEAD", "/health"), std::pair("GET", "/ready")}) {
    http::Request request;
    request.method = method;
    request.path = path;
    EXPECT_TRUE(send(std::move(request))->complete()) << method << " " << path;
  }
  gate.set_value();
}

TEST_F(SharedServer, WholeAnswersTogetherAreBounded) {
  ApiOptions options;
  options.max_answers_bytes = 20'000;
  start(std::move(options));
  const std::vector<wire::TokenInfo> tokens(50, {17, -0.5f, {{18, -1.0f}, {19, -2.0f}}});
  const auto many = [&](uint64_t request, uint32_t index) { leader->tokens(request, index * 50, tokens); };
  std::vector<std::shared_ptr<FakeResponder>> clients;
  std::vector<uint64_t> requests;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(complete("\"max_tokens\":100000,\"logprobs\":2"));
    requests.push_back(leader->next<wire::Submit>().request);
  }
  const auto over = [&] {
    size_t count = 0;
    for (const auto& client : clients)
      count += client->complete() ? 1 : 0;
    return count;
  };
  // None of them is too large by itself.
  for (uint32_t i = 0; i < 40 && over() == 0; ++i) {
    many(requests[i % 3], i / 3);
    while (counter(CounterId::kGenerationTokens) < 50.0 * (i + 1) && over() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(over(), 1u);
  const uint64_t cancelled = leader->next<wire::Cancel>().request;
  for (size_t i = 0; i < 3; ++i) {
    if (!clients[i]->complete()) {
      EXPECT_NE(requests[i], cancelled);
      continue;
    }
    EXPECT_EQ(requests[i], cancelled);
    EXPECT_EQ(clients[i]->status(), 429);
    EXPECT_FALSE(clients[i]->header("Retry-After").empty());
    EXPECT_EQ(clients[i]->json()["error"]["code"], "overloaded");
  }
  // What is streamed is none of it, and who leaves makes room.
  const auto streamed = complete("\"max_tokens\":100000,\"logprobs\":2,\"stream\":true");
  const auto stream = leader->next<wire::Submit>().request;
  for (uint32_t i = 0; i < 10; ++i)
    many(stream, i);
  leader->finish(stream, 500);
  ASSERT_TRUE(streamed->wait_complete());
  EXPECT_EQ(streamed->status(), 200);
  for (const auto& client : clients)
    client->leave();
  const auto next = complete("\"max_tokens\":100000,\"logprobs\":2");
  const auto request = leader->next<wire::Submit>().request;
  many(request, 0);
  many(request, 1);
  leader->finish(request, 100);
  ASSERT_TRUE(next->wait_complete());
  EXPECT_EQ(next->status(), 200);
  EXPECT_GT(next->body().size(), 4'000u);
}

TEST_F(SharedServer, AWholeAnswerThatIsTooLargeIsAnErrorAndItsSequencesEnd) {
  ApiOptions options;
  options.max_answer_bytes = 20'000;
  start(std::move(options));
  const auto client = complete("\"max_tokens\":100000,\"logprobs\":5,\"n\":2");
  const auto first = leader->next<wire::Submit>().request;
  const auto second = leader->next<wire::Submit>().request;
  const std::vector<wire::TokenInfo> tokens(50, {17, -0.5f, {{18, -1.0f}, {19, -2.0f}}});
  for (uint32_t i = 0; i < 40 && !client->complete(); ++i) {
    leader->tokens(i % 2 == 0 ? first : second, i / 2 * 50, tokens);
  }
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 400);
  EXPECT_EQ(client->json()["error"]["param"], "stream");
  leader->next<wire::Cancel>();
  leader->next<wire::Cancel>();
}

TEST_F(SharedServer, EchoesAreAPartOfAnAnswersSize) {
  ApiOptions options;
  options.max_answer_bytes = 20'000;
  start(std::move(options));
  const std::string prompt = '"' + std::string(2'000, 'a') + '"';
  const auto refused = complete("\"max_tokens\":1,\"echo\":true,\"n\":11", prompt);
  ASSERT_TRUE(refused->wait_complete());
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["param"], "stream");
  const auto fits = complete("\"max_tokens\":1,\"echo\":true,\"n\":2", prompt);
  for (int i = 0; i < 2; ++i)
    leader->run(leader->next<wire::Submit>().request, "b");
  ASSERT_TRUE(fits->wait_complete());
  EXPECT_EQ(fits->json()["choices"][1]["text"], std::string(2'000, 'a') + "b");
  const auto streamed = complete("\"max_tokens\":1,\"echo\":true,\"n\":11,\"stream\":true", prompt);
  for (int i = 0; i < 11; ++i)
    leader->run(leader->next<wire::Submit>().request, "b");
  ASSERT_TRUE(streamed->wait_complete());
  EXPECT_EQ(streamed->status(), 200);
}

TEST_F(SharedServer, EchoAndScoresOfAPromptAreNotBehind) {
  start();
  const auto client = complete(R"("echo":true,"logprobs":2,"max_tokens":1,"stream":true)", R"("Hello you there")");
  const auto submit = leader->next<wire::Submit>();
  wire::Tokens scores;
  scores.chunks.push_back({submit.request, 0, {}, 1, {}});
  for (size_t i = 1; i < submit.tokens.size(); ++i)
    scores.chunks[0].prompt_logprobs.push_back({submit.tokens[i], -0.5f, {}});
  leader->send(scores);
  ASSERT_TRUE(client->wait_for("Hello you there"));
  const size_t bulk = client->bulk_bytes();
  EXPECT_GT(bulk, 0u);
  leader->run(submit.request, "a");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->bulk_bytes(), bulk) << "what is generated counts as ever";
}

TEST_F(SharedServer, ASmallAnswerDoesNotWaitBehindRequestsThatAreRead) {
  ApiOptions options;
  options.threads = 1;
  start(std::move(options));
  const auto client = complete("");
  const auto submit = leader->next<wire::Submit>();
  std::promise<void> gate;
  api->executor().post("hog", [opened = gate.get_future().share()] { opened.wait(); });
  leader->run(submit.request, "a");
  EXPECT_TRUE(client->wait_complete());
  gate.set_value();
}

}  // namespace
}  // namespace krait::api
