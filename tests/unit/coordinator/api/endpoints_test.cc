// Paths, methods, keys, and the endpoints other than completions.
#include "coordinator/api/coordinator_metrics.h"
#include "tests/unit/coordinator/api/api_fixture.h"

namespace krait::api {
namespace {

using Endpoints = ApiFixture;

std::string param_of(const FakeResponder& responder) {
  const auto body = responder.json();
  return body["error"]["param"].is_string() ? body["error"]["param"].get<std::string>() : "";
}

TEST_F(Endpoints, UnknownPathsAndWrongMethods) {
  start({}, false);
  for (const char* path : {"/", "/v1", "/v1/completions/", "/V1/models", "/v1/models/", "/metrics", "//health"}) {
    const auto answer = get(path);
    EXPECT_EQ(answer->status(), 404) << path;
    EXPECT_EQ(answer->json()["error"]["type"], "not_found_error");
  }
  EXPECT_LT(get("/" + std::string(60'000, 'x'))->body().size(), 1000u);
  const auto wrong = get("/v1/completions");
  EXPECT_EQ(wrong->status(), 405);
  EXPECT_EQ(wrong->header("Allow"), "OPTIONS, POST");
  EXPECT_EQ(get("/v1/completions", "HEAD")->status(), 405);
  for (const char* method : {"DELETE", "PUT", "PATCH", "TRACE", "CONNECT", "BREW", "post"}) {
    EXPECT_EQ(get("/v1/models", method)->status(), 405) << method;
    EXPECT_EQ(get("/v1/models", method)->header("Allow"), "GET, HEAD, OPTIONS") << method;
  }
  EXPECT_EQ(get("/v1/completions", "OPTIONS")->status(), 204);
  EXPECT_EQ(get("/v1/completions", "OPTIONS")->header("Allow"), "OPTIONS, POST");
  EXPECT_EQ(get("*", "OPTIONS")->header("Allow"), "GET, HEAD, OPTIONS, POST");
  EXPECT_EQ(get("/none", "OPTIONS")->status(), 404);
  EXPECT_EQ(get("/health", "get")->status(), 405) << "methods have a case";
  EXPECT_EQ(get("/health")->status(), 200);
  EXPECT_EQ(get("/health", "HEAD")->status(), 200) << "HTTP leaves the body out";
}

TEST_F(Endpoints, KeysAreAskedForWhereThereAreSome) {
  ApiOptions options;
  options.api_keys = {"first-key", "second"};
  start(std::move(options), false);
  const auto with = [&](const std::string& value) {
    return get("/v1/models", "GET", {{"authorization", value}})->status();
  };
  const auto without = get("/v1/models");
  EXPECT_EQ(without->status(), 401);
  EXPECT_EQ(without->header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(without->json()["error"]["type"], "authentication_error");
  EXPECT_EQ(with("Bearer first-key"), 200);
  EXPECT_EQ(with("bearer second"), 200) << "the scheme's name has no case";
  for (const char* value :
       {"", "Bearer", "Bearer ", "first-key", "Basic first-key", "Bearer first-ke", "Bearer first-keyy",
        "Bearer First-key", "Bearer  second", "Bearer secondsecond", "Bearersecond"}) {
    EXPECT_EQ(with(value), 401) << value;
  }
  EXPECT_EQ(get("/health")->status(), 200);
  EXPECT_EQ(get("/ready")->status(), 503);
  EXPECT_EQ(get("/cluster")->status(), 401);
  const auto completion = complete("");
  ASSERT_TRUE(completion->wait_complete());
  EXPECT_EQ(completion->status(), 401);
}

TEST_F(Endpoints, Models) {
  ApiOptions options;
  options.model = demo_info();
  options.model.name = "org/demo model";
  options.created_s = 1234;
  start(std::move(options), false);
  const auto list = get("/v1/models")->json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "org/demo model");
  EXPECT_EQ(list["data"][0]["created"], 1234);
  for (const char* path :
       {"/v1/models/org%2Fdemo%20model", "/v1/models/org/demo%20model", "/v1/models/org%2fdemo model"})
    EXPECT_EQ(get(path)->json()["id"], "org/demo model") << path;
  for (const char* path : {"/v1/models/other", "/v1/models/org%2Fdemo+model", "/v1/models/%", "/v1/models/%ff"}) {
    const auto answer = get(path);
    EXPECT_EQ(answer->status(), 404) << path;
    EXPECT_EQ(param_of(*answer), "model");
  }
}

TEST_F(Endpoints, TokenizeAndDetokenizeAreInverse) {
  start({}, false);
  const auto ask = [&](const std::string& path, const std::string& body) {
    auto answer = post(path, body);
    EXPECT_TRUE(answer->wait_complete());
    return answer;
  };
  const std::string text = "caf\u00e9 \U0001f600";
  const auto there = ask("/tokenize", nlohmann::json{{"prompt", text}, {"return_token_strs", true}}.dump());
  ASSERT_EQ(there->status(), 200) << there->body();
  EXPECT_EQ(there->json()["tokens"].get<std::vector<int32_t>>(), ids_of(text));
  EXPECT_EQ(there->json()["count"], ids_of(text).size());
  EXPECT_EQ(there->json()["token_strs"].size(), ids_of(text).size());
  const auto back = ask("/detokenize", nlohmann::json{{"tokens", ids_of(text)}}.dump());
  EXPECT_EQ(back->json()["prompt"], text);
  EXPECT_EQ(ask("/tokenize", R"({"prompt":""})")->json()["count"], 0);
  EXPECT_EQ(ask("/detokenize", R"({"tokens":[]})")->json()["prompt"], "");
  EXPECT_EQ(ask("/tokenize", R"({"prompt":"a","x":1})")->header("x-krait-unknown-fields"), "x");
  EXPECT_EQ(param_of(*ask("/tokenize", "{}")), "prompt");
  EXPECT_EQ(param_of(*ask("/tokenize", R"({"prompt":["a"]})")), "prompt");
  EXPECT_EQ(param_of(*ask("/tokenize", R"({"messages":[]})")), "messages");
  EXPECT_EQ(param_of(*ask("/detokenize", "{}")), "tokens");
  EXPECT_EQ(param_of(*ask("/detokenize", R"({"tokens":[1,-1]})")), "tokens[1]");
  EXPECT_EQ(param_of(*ask("/detokenize", R"({"tokens":[4104]})")), "tokens[0]");
  EXPECT_EQ(ask("/tokenize", R"({"prompt":"a","model":"other"})")->status(), 404);
  EXPECT_EQ(ask("/tokenize", "{")->status(), 400);
}

TEST_F(Endpoints, WithoutATokenizerThereIsNoText) {
  ApiOptions options;
  options.model = info_without_tokenizer();
  start(std::move(options), false);
  for (const char* path : {"/tokenize", "/detokenize"}) {
    const auto answer = post(path, R"({"prompt":"a","tokens":[1]})");
    ASSERT_TRUE(answer->wait_complete());
    EXPECT_EQ(answer->status(), 400);
    EXPECT_NE(answer->body().find("no tokenizer"), std::string::npos);
  }
}

TEST_F(Endpoints, ReadyAndClusterSayWhatServes) {
  start({}, false);
  EXPECT_EQ(get("/ready")->status(), 503);
  EXPECT_EQ(get("/ready")->json()["groups"][0]["state"], "unreachable");
  leader->serve(wire::GroupState::kLoading);
  const auto state = [&] { return get("/cluster")->json()["groups"][0]["state"]; };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (state() != "loading" && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(get("/ready")->status(), 503);
  leader->serve();
  while (!cluster->ready() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(get("/ready")->status(), 200);
  EXPECT_EQ(get("/ready")->json()["status"], "ready");
  const auto group = get("/cluster")->json()["groups"][0];
  EXPECT_EQ(group["name"], "g0");
  EXPECT_EQ(group["state"], "serving");
  EXPECT_EQ(group["system_fingerprint"], "numerics");
  EXPECT_EQ(group["slots"], 4);
  EXPECT_EQ(group["ranks"][0]["pid"], 77);
  EXPECT_EQ(group["ranks"][0]["metrics_port"], 9100);
  api->set_draining();
  EXPECT_EQ(get("/ready")->status(), 503);
  EXPECT_EQ(get("/ready")->json()["status"], "draining");
  EXPECT_EQ(get("/health")->status(), 200);
}

TEST(CoordinatorMetrics, EndpointsAreABoundedSet) {
  metrics::Registry registry(metrics::Process::kCoordinator);
  CoordinatorMetrics figures(registry);
  for (const char* path :
       {"/v1/completions", "/v1/models", "/v1/models/a", "/v1/models/b", "/etc/passwd", "/v1/modelsx"}) {
    http::AccessRecord record;
    record.path = path;
    record.status = 200;
    record.body_bytes = 10;
    figures.observe_access(record);
  }
  const auto count = [&](const char* endpoint) {
    return registry.counter(metrics::CounterId::kRequests, {endpoint, "200"}).value();
  };
  EXPECT_EQ(count("/v1/completions"), 1);
  EXPECT_EQ(count("/v1/models"), 1);
  EXPECT_EQ(count("/v1/models/{model}"), 2);
  EXPECT_EQ(count("other"), 2);
  EXPECT_EQ(registry.counter(metrics::CounterId::kHttpSentBytes).value(), 60);
}

TEST(CoordinatorMetrics, TextsCountOnceByWhereTheirTokensAreFrom) {
  metrics::Registry registry(metrics::Process::kCoordinator);
  CoordinatorMetrics figures(registry);
  ModelInfo model;
  model.texts = std::make_shared<tokenizer::StretchCache>(100'000);
  const std::string text = "sixteen bytes and more";
  const tokenizer::StretchCache::Key key{text, {}, false, true};
  std::vector<int32_t> ids{1, 2};
  EXPECT_FALSE(model.texts->find(key, ids));
  model.texts->put(key, ids);
  const auto bytes = [&](const char* source) {
    return registry.counter(metrics::CounterId::kTokenizedBytes, {source}).value();
  };
  for (int i = 0; i < 2; ++i) {
    figures.observe({}, model, {});
    EXPECT_EQ(bytes("computed"), 22);
    EXPECT_EQ(bytes("cache"), 0);
  }
  EXPECT_TRUE(model.texts->find(key, ids));
  figures.observe({}, model, {});
  EXPECT_EQ(bytes("computed"), 22);
  EXPECT_EQ(bytes("cache"), 22);
  EXPECT_GT(registry.gauge(metrics::GaugeId::kTextCacheBytes).value(), 22);
}

TEST(CoordinatorMetrics, WhatRanBeforeIsNoLongerAtOne) {
  metrics::Registry registry(metrics::Process::kCoordinator);
  CoordinatorMetrics figures(registry);
  ModelInfo model;
  model.name = "demo";
  std::vector<requests::GroupSnapshot> groups(2);
  groups[0].name = "g0";
  groups[1].name = "g1";
  const auto series = [&](const std::string& name, const std::string& having) {
    const std::string text = registry.render();
    std::vector<std::string> values;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      if (line.starts_with(name + "{") && line.find(having) != std::string::npos)
        values.push_back(line.substr(line.rfind(' ') + 1));
    }
    return values;
  };
  using Values = std::vector<std::string>;
  figures.observe(groups, model, {});
  EXPECT_EQ(series("krait_build_info", ""), Values());
  EXPECT_EQ(series("krait_group_up", "g0"), Values{"0"});
  for (auto& group : groups) {
    group.connected = group.serving = true;
    group.status.model = "demo";
    group.status.numerics_id = "old";
    group.status.fingerprint = "f";
  }
  figures.observe(groups, model, {});
  EXPECT_EQ(series("krait_build_info", "\"old\""), Values{"1"});
  EXPECT_EQ(series("krait_group_up", "g0"), Values{"1"}) << "the same series as before it was heard of";
  groups[0].status.numerics_id = "new";
  figures.observe(groups, model, {});
  EXPECT_EQ(series("krait_build_info", "\"old\""), Values{"1"}) << "the other group still runs it";
  EXPECT_EQ(series("krait_build_info", "\"new\""), Values{"1"});
  groups[1].status.numerics_id = "new";
  groups[1].serving = false;
  figures.observe(groups, model, {});
  EXPECT_EQ(series("krait_build_info", "\"old\""), Values{"0"});
  EXPECT_EQ(series("krait_group_up", "g1"), Values{"0"});
}

}  // namespace
}  // namespace krait::api
