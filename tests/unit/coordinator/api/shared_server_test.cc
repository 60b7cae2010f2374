// One server, many clients: who is who, what an answer may hold, and that news go out while others' bodies are read.
#include <future>

#include "coordinator/api/client_key.h"
#include "tests/unit/coordinator/api/api_fixture.h"

namespace krait::api {
namespace {

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
  start();
  complete_as("sk-alpha-secret");
  const auto alpha = leader->next<wire::Submit>().client;
  complete_as("sk-alpha-secret");
  EXPECT_EQ(leader->next<wire::Submit>().client, alpha);
  complete_as("sk-beta-secret");
  EXPECT_NE(leader->next<wire::Submit>().client, alpha);
  EXPECT_EQ(alpha.find("secret"), std::string::npos) << "keys go nowhere";
  EXPECT_TRUE(alpha.starts_with("key-"));
  complete("");
  EXPECT_EQ(leader->next<wire::Submit>().client, "127.0.0.1");

  http::Request request;
  request.peer = "[::1]:4711";
  EXPECT_EQ(client_key(request), "[::1]");
  request.headers.add("Authorization", "Basic abc");
  EXPECT_EQ(client_key(request), "[::1]");
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
