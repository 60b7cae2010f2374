// Requests that go through the API to a leader played by the test, and what their clients see.
#include "tests/unit/coordinator/api/api_fixture.h"

namespace krait::api {
namespace {

using metrics::CounterId;

using CompletionAnswer = ApiFixture;

TEST_F(CompletionAnswer, Whole) {
  start();
  const auto client = complete(R"("max_tokens":9,"seed":4,"user":"me","mystery":1)");
  const auto submit = leader->next<wire::Submit>();
  EXPECT_EQ(submit.model, "demo");
  EXPECT_EQ(submit.tokens, ids_of("Hello"));
  EXPECT_EQ(submit.max_tokens, 9u);
  EXPECT_EQ(submit.sampling.seed, 4u);
  EXPECT_EQ(submit.client, "127.0.0.1");
  EXPECT_EQ(submit.deadline_ms, 600'000);
  leader->run(submit.request, " you there", 3);
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->header("Content-Type"), "application/json");
  EXPECT_EQ(client->header("x-krait-unknown-fields"), "mystery");
  const auto body = client->json();
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(body["model"], "demo");
  EXPECT_EQ(body["system_fingerprint"], "numerics of its group");
  EXPECT_GT(body["created"], 1'600'000'000);
  ASSERT_EQ(body["choices"].size(), 1u);
  EXPECT_EQ(body["choices"][0]["text"], " you there");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  const auto generated = ids_of(" you there").size();
  EXPECT_EQ(body["usage"]["prompt_tokens"], submit.tokens.size());
  EXPECT_EQ(body["usage"]["completion_tokens"], generated);
  EXPECT_EQ(body["usage"]["total_tokens"], submit.tokens.size() + generated);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(counter(CounterId::kUnknownFields), 1);
  EXPECT_EQ(counter(CounterId::kPromptTokens), static_cast<double>(submit.tokens.size()));
  EXPECT_EQ(counter(CounterId::kGenerationTokens), static_cast<double>(generated));
}

TEST_F(CompletionAnswer, UsageCountsAPromptOnceWhateverN) {
  start();
  const auto client = complete(R"("n":2)", R"(["Hello","you"])");
  std::vector<wire::Submit> submits;
  for (int i = 0; i < 4; ++i)
    submits.push_back(leader->next<wire::Submit>());
  EXPECT_EQ(submits[1].sampling.choice, 1u);
  EXPECT_EQ(submits[2].sampling.choice, 0u);
  for (size_t i = submits.size(); i-- > 0;)
    leader->run(submits[i].request, std::string(1, static_cast<char>('a' + i)), 1);
  ASSERT_TRUE(client->wait_complete());
  const auto body = client->json();
  ASSERT_EQ(body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], std::string(1, static_cast<char>('a' + i)));
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], ids_of("Hello").size() + ids_of("you").size());
  EXPECT_EQ(body["usage"]["completion_tokens"], 4 * ids_of("a").size());
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST_F(CompletionAnswer, Streamed) {
  start();
  const auto client = complete(R"("stream":true,"logprobs":0)");
  const auto submit = leader->next<wire::Submit>();
  EXPECT_EQ(client->status(), 0) << "no head before there is something to say";
  leader->tokens(submit.request, 0, "a");
  ASSERT_TRUE(client->wait_for("\"a\""));
  EXPECT_EQ(client->status(), 200);
  EXPECT_EQ(client->header("Content-Type").substr(0, 17), "text/event-stream");
  leader->tokens(submit.request, 1, "b");
  leader->finish(submit.request, 2);
  ASSERT_TRUE(client->wait_complete());
  const auto events = client->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "a");
  EXPECT_TRUE(events[0]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["tokens"].size(), 1u);
  EXPECT_EQ(events[1]["choices"][0]["text"], "b");
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(events[2]["choices"][0]["logprobs"].is_null());
  for (const auto& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_FALSE(event.contains("usage"));
  }
}

TEST_F(CompletionAnswer, TheEndTravelsWithTheTokenThatCompletesAStopString) {
  start();
  const auto client = complete(R"("stream":true,"stop":"b")");
  const auto submit = leader->next<wire::Submit>();
  leader->tokens(submit.request, 0, "ab");
  ASSERT_TRUE(client->wait_complete());
  const auto events = client->events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "a");
  EXPECT_EQ(events[0]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[0]["choices"][0]["stop_reason"], "b");
  EXPECT_EQ(leader->next<wire::Cancel>().request, submit.request) << "its slot is freed";
}

TEST_F(CompletionAnswer, UsageOfAStreamComesLast) {
  start();
  const auto client = complete(R"("stream":true,"stream_options":{"include_usage":true})");
  const auto submit = leader->next<wire::Submit>();
  leader->run(submit.request, "a");
  ASSERT_TRUE(client->wait_complete());
  const auto events = client->events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_TRUE(events[0]["usage"].is_null());
  EXPECT_EQ(events.back()["choices"].size(), 0u);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 1);
}

TEST_F(CompletionAnswer, ARefusalBeforeAnythingWasSentHasItsStatus) {
  start();
  leader->accepts = false;
  for (const char* fields : {"", "\"stream\":true"}) {
    const auto client = complete(fields);
    const auto submit = leader->next<wire::Submit>();
    leader->send(wire::Rejected{submit.request, Error{Errc::kOverloaded, "the queue is full", ""}, 7});
    ASSERT_TRUE(client->wait_complete());
    EXPECT_EQ(client->status(), 429);
    EXPECT_EQ(client->header("Retry-After"), "7");
    EXPECT_EQ(client->header("Content-Type"), "application/json");
    EXPECT_EQ(client->json()["error"]["type"], "rate_limit_error");
  }
  EXPECT_EQ(counter(CounterId::kErrors, {"overloaded"}), 2);
  EXPECT_EQ(counter(CounterId::kPromptTokens), 0) << "only accepted sequences count";
}

TEST_F(CompletionAnswer, AnErrorWithinAStreamIsAnEvent) {
  start();
  const auto client = complete("\"stream\":true");
  const auto submit = leader->next<wire::Submit>();
  leader->tokens(submit.request, 0, "a");
  ASSERT_TRUE(client->wait_for("\"a\""));
  wire::Finished finished;
  finished.request = submit.request;
  finished.reason = wire::FinishReason::kError;
  finished.error = Error{Errc::kUnavailable, "a rank was lost", ""};
  leader->send(finished);
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 200);
  const auto events = client->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["error"]["message"], "a rank was lost");
  EXPECT_EQ(events[1]["error"]["code"], "unavailable");
  EXPECT_EQ(counter(CounterId::kErrors, {"unavailable"}), 1);
}

TEST_F(CompletionAnswer, WithoutAGroupItIsUnavailableForNow) {
  start({}, false);
  const auto client = complete("");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 503);
  EXPECT_EQ(client->header("Retry-After"), "1");
}

TEST_F(CompletionAnswer, AClientThatLeavesCancels) {
  start();
  for (const char* fields : {"", "\"stream\":true"}) {
    const auto client = complete(fields);
    const auto submit = leader->next<wire::Submit>();
    leader->tokens(submit.request, 0, "a");
    client->leave();
    EXPECT_EQ(leader->next<wire::Cancel>().request, submit.request);
    leader->tokens(submit.request, 1, "b");
    leader->finish(submit.request, 2);
  }
  EXPECT_EQ(counter(CounterId::kStreamCancels, {"client_gone"}), 2);
  // What still came for those that left does no harm to the next one.
  const auto client = complete("");
  leader->run(leader->next<wire::Submit>().request, "c");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->json()["choices"][0]["text"], "c");
}

TEST_F(CompletionAnswer, AClientThatLeftBeforeItsRequestWasReadCancels) {
  ApiOptions options;
  options.threads = 1;
  start(std::move(options));
  std::mutex gate;
  gate.lock();
  api->executor().post("c", [&] { const std::scoped_lock wait(gate); });
  complete("\"max_tokens\":1")->leave();
  const auto other = complete("\"max_tokens\":2");
  gate.unlock();
  auto submit = leader->next<wire::Submit>();
  if (submit.max_tokens == 1) {  // it may be sent before it is cancelled
    EXPECT_EQ(leader->next<wire::Cancel>().request, submit.request);
    submit = leader->next<wire::Submit>();
  }
  leader->run(submit.request, "a");
  ASSERT_TRUE(other->wait_complete());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (cluster->open_requests() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(cluster->open_requests(), 0u);
  EXPECT_EQ(counter(CounterId::kStreamCancels, {"client_gone"}), 1);
}

TEST_F(CompletionAnswer, ASilentStreamIsKeptAlive) {
  ApiOptions options;
  options.keep_alive_ns = 5 * kMs;
  start(std::move(options));
  const auto client = complete("\"stream\":true");
  const auto submit = leader->next<wire::Submit>();
  ASSERT_TRUE(client->wait_for(": keep-alive\n\n: keep-alive\n\n"));
  EXPECT_EQ(client->status(), 200);
  leader->run(submit.request, "a");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->events()[0]["choices"][0]["text"], "a");
  const auto silent = complete("");
  leader->next<wire::Submit>();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(silent->status(), 0) << "an answer that comes whole has no comments";
}

TEST_F(CompletionAnswer, DoesNotWaitForTheTokensOfLongTexts) {
  ApiOptions options;
  options.threads = 1;
  start(std::move(options));
  const std::string text = R"({"prompt":")" + std::string(7'000'000, 'a') + R"("})";
  const auto first = post("/tokenize", text);
  const auto second = post("/tokenize", text);
  const auto client = complete("");
  leader->run(leader->next<wire::Submit>().request, "a");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_FALSE(second->complete()) << "or the texts were too short to tell";
  ASSERT_TRUE(first->wait_complete() && second->wait_complete());
  EXPECT_EQ(second->status(), 200);
}

TEST_F(CompletionAnswer, TooMuchWorkThatWaitsIsRefused) {
  ApiOptions options;
  options.threads = 1;
  options.max_waiting = 1;
  start(std::move(options));
  std::mutex gate;
  gate.lock();
  std::atomic<bool> running = false;
  api->executor().post("c", [&] {
    running = true;
    const std::scoped_lock wait(gate);
  });
  while (!running)
    std::this_thread::yield();
  const auto first = complete("");
  const auto second = complete("");
  ASSERT_TRUE(second->wait_complete());
  EXPECT_EQ(second->status(), 429);
  EXPECT_EQ(second->header("Retry-After"), "1");
  gate.unlock();
  leader->run(leader->next<wire::Submit>().request, "a");
  ASSERT_TRUE(first->wait_complete());
  EXPECT_EQ(first->status(), 200);
}

TEST_F(CompletionAnswer, MoreSequencesThanAGroupHoldsAreRefusedForGood) {
  start();
  const auto client = complete("\"n\":13");  // 4 slots and 8 in the queue
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 400);
  EXPECT_EQ(client->json()["error"]["param"], "prompt");
  const auto fits = complete("\"n\":12");
  for (int i = 0; i < 12; ++i)
    leader->next<wire::Submit>();
  EXPECT_FALSE(fits->complete());
}

TEST_F(CompletionAnswer, LogprobsKeepTheFloatsBits) {
  start();
  const auto client = complete("\"logprobs\":0");
  const auto submit = leader->next<wire::Submit>();
  const std::vector<float> logprobs = {-0.1f, -1e-7f, -17.123456f, -0.33333334f};
  std::vector<wire::TokenInfo> infos;
  for (const float logprob : logprobs)
    infos.push_back({ids_of("a")[0], logprob, {}});
  leader->tokens(submit.request, 0, infos);
  leader->finish(submit.request, 4);
  ASSERT_TRUE(client->wait_complete());
  const auto body = client->json();
  for (size_t i = 0; i < logprobs.size(); ++i)
    EXPECT_EQ(body["choices"][0]["logprobs"]["token_logprobs"][i].get<float>(), logprobs[i]);
}

TEST_F(CompletionAnswer, StrictFieldsRefuseUnknownOnes) {
  ApiOptions options;
  options.strict_fields = true;
  start(std::move(options));
  const auto client = complete("\"mystery\":1");
  ASSERT_TRUE(client->wait_complete());
  EXPECT_EQ(client->status(), 400);
  EXPECT_EQ(client->json()["error"]["param"], "mystery");
  for (const char* path : {"/tokenize", "/detokenize"}) {
    const auto other = post(path, R"({"prompt":"a","tokens":[1],"mystery":1})");
    ASSERT_TRUE(other->wait_complete());
    EXPECT_EQ(other->status(), 400);
  }
}

}  // namespace
}  // namespace krait::api
