// One process that is a whole cluster over real sockets: HTTP server, API, the request core's thread, the leader and
// its ranks, each on the threads it has in production, under clients that come, read, leave early and send nonsense at
// the same time. Answers are compared; above all it is what ThreadSanitizer looks at.
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/rng.h"
#include "common/transport/zmq_transport.h"
#include "common/wire/addresses.h"
#include "coordinator/api/api.h"
#include "coordinator/api/coordinator_metrics.h"
#include "shard_server/service/shard_daemon.h"
#include "tests/support/draws.h"
#include "tests/unit/cluster/cluster_fixture.h"
#include "tests/unit/coordinator/http/test_client.h"

namespace krait::test {
namespace {

/// A rank as a thread, which may be stopped and started again.
class RankThread final {
 public:
  RankThread(shard::ShardOptions options, const Clock& clock) : options_(std::move(options)), clock_(clock) { start(); }
  ~RankThread() { stop(); }

  void start() {
    stop_requests_ = 0;
    daemon_ = shard::ShardDaemon::start(options_, clock_).value();
    thread_ = std::thread([this] { EXPECT_TRUE(daemon_->run(stop_requests_).ok()); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_requests_ = 2;
    thread_.join();
    daemon_.reset();
  }
  std::string metrics() { return daemon_->metrics().render(); }

 private:
  const shard::ShardOptions options_;
  const Clock& clock_;
  std::atomic<int> stop_requests_ = 0;
  std::unique_ptr<shard::ShardDaemon> daemon_;
  std::thread thread_;
};

struct Stress : testing::Test {
  static constexpr int kWorld = 2;

  void SetUp() override {
    shard::ShardOptions shard;
    shard.world = kWorld;
    shard.run_dir = folder.path();
    shard.model = source_path("deploy/demo_model");
    shard.served_model_name = "demo";
    shard.slots = 4;
    shard.max_queue = 16;
    for (shard.rank = 0; shard.rank < kWorld; ++shard.rank)
      ranks.push_back(std::make_unique<RankThread>(shard, clock));

    api::ApiOptions options;
    options.model.name = "demo";
    options.model.tokenizer = tokenizer::Tokenizer::load(shard.model + "/tokenizer.json").value();
    options.model.vocab_size = options.model.tokenizer->vocab_size();
    requests::CoreOptions core;
    core.name = "coordinator-1";
    core.incarnation = 1;
    core.groups = {shard.group};
    core.addresses = {wire::leader_address(shard.run_dir, shard.group)};
    core.model = "demo";
    core.tokenizer = options.model.tokenizer;
    cluster = requests::ClusterClient::start(std::move(core), transport::make_zmq_transport().value(), clock,
                                             figures.observer())
                  .value();
    api.emplace(std::move(options), *cluster, registry);
    http::Options listen;
    server = http::HttpServer::start(listen, api->handler(), [this](const auto& record) {
               figures.observe_access(record);
             }).value();
    wait_until_ready();
  }

  void TearDown() override {
    server->stop();
    api.reset();
    cluster.reset();
    ranks.clear();
  }

  void wait_until_ready() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!cluster->ready() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(cluster->ready());
  }

  http::Response call(const std::string& method, const std::string& path, const std::string& body) const {
    http::TestClient client(server->port());
    return client.request(text_of(method, path, body));
  }
  static std::string text_of(const std::string& method, const std::string& path, const std::string& body) {
    return fmt::format("{} {} HTTP/1.1\r\nHost: krait\r\nContent-Length: {}\r\n\r\n{}", method, path, body.size(),
                       body);
  }
  static std::string completion(uint64_t prompt, bool stream) {
    return fmt::format(
        R"({{"prompt":[{},{},{}],"max_tokens":6,"temperature":1,"seed":7,"ignore_eos":true,"stream":{}}})", 11 + prompt,
        12 + 2 * prompt, 13 + 3 * prompt, stream);
  }

  /// One client's life: what it does next is drawn.
  void client(uint64_t seed, int requests, const std::vector<std::string>& expected, bool may_fail) const {
    SplitMix64 random(seed);
    for (int i = 0; i < requests; ++i) {
      const uint64_t prompt = random.below(expected.size());
      switch (random.below(6)) {
        case 0: {  // leaves in the middle of a stream
          http::TestClient leaver(server->port());
          leaver.send(text_of("POST", "/v1/completions", completion(prompt, true)));
          if (random.below(2) == 0) leaver.wait_for("\r\n\r\n");
          leaver.reset();
          break;
        }
        case 1:
          EXPECT_EQ(call("POST", "/v1/completions", R"({"prompt": "\ud800", )").status, 400);
          break;
        case 2: {
          const auto response = call("GET", random.below(2) == 0 ? "/cluster" : "/v1/models", "");
          EXPECT_EQ(response.status, 200) << response.body;
          break;
        }
        default: {
          const auto response = call("POST", "/v1/completions", completion(prompt, false));
          const bool refused = response.status == 429 || (may_fail && response.status == 503);
          if (refused) break;
          EXPECT_EQ(response.status, 200) << response.body;
          if (response.status == 200) {
            EXPECT_EQ(text_in(response.body), expected[prompt]);
          }
        }
      }
    }
  }

  static std::string text_in(const std::string& body) {
    return nlohmann::json::parse(body)["choices"][0]["text"].get<std::string>();
  }

  std::vector<std::string> expected_texts() const {
    std::vector<std::string> texts;
    for (uint64_t prompt = 0; prompt < 4; ++prompt) {
      const auto response = call("POST", "/v1/completions", completion(prompt, false));
      EXPECT_EQ(response.status, 200) << response.body;
      texts.push_back(response.status == 200 ? text_in(response.body) : "");
    }
    return texts;
  }

  /// All clients at once, with `meanwhile` on this thread.
  template <class Work>
  void run_clients(int clients, int requests, bool may_fail, const Work& meanwhile) {
    const auto expected = expected_texts();
    std::vector<std::thread> threads;
    for (int i = 0; i < clients; ++i)
      threads.emplace_back([&, i] { client(static_cast<uint64_t>(i) + 1, requests, expected, may_fail); });
    meanwhile();
    for (auto& thread : threads)
      thread.join();
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (cluster->open_requests() > 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(cluster->open_requests(), 0u);
    wait_until_ready();
    // That the last rank went may be noticed only now.
    while (may_fail && std::chrono::steady_clock::now() < end &&
           call("POST", "/v1/completions", completion(0, false)).status == 503)
      wait_until_ready();
    EXPECT_EQ(expected_texts(), expected);
  }

  const SteadyClock clock;
  ScratchDir folder;
  metrics::Registry registry{metrics::Process::kCoordinator};
  api::CoordinatorMetrics figures{registry};
  std::vector<std::unique_ptr<RankThread>> ranks;
  std::unique_ptr<requests::ClusterClient> cluster;
  std::optional<api::Api> api;
  std::unique_ptr<http::HttpServer> server;
};

TEST_F(Stress, ManyClientsAtOnce) {
  run_clients(12, draws({.usual = 6, .sanitized = 6, .long_run = 100}), false, [this] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(registry.render().empty());
      EXPECT_FALSE(ranks[0]->metrics().empty());
      figures.observe(cluster->groups(), api->model(), server->stats());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
}

TEST_F(Stress, ARankComesAndGoesUnderClients) {
  run_clients(6, draws({.usual = 6, .sanitized = 6, .long_run = 60}), true, [this] {
    for (int i = 0; i < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ranks[1]->stop();
      ranks[1]->start();
      wait_until_ready();
    }
  });
}

}  // namespace
}  // namespace krait::test
