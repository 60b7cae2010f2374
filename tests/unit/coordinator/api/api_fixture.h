// The API over a cluster client whose only group is played by the test, and HTTP exchanges without sockets.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/metrics/registry.h"
#include "common/transport/loopback_transport.h"
#include "common/wire/codec.h"
#include "coordinator/api/api.h"
#include "tests/unit/coordinator/api/completion_fixture.h"

namespace krait::api {

inline constexpr auto kPatience = std::chrono::seconds(60);

/// What an answer's client would see; it may leave at any time.
class FakeResponder final : public http::Responder {
 public:
  void respond(int status, http::Headers headers, std::string body) override {
    change([&] {
      if (closed_ || status_ != 0) return;
      status_ = status;
      headers_ = std::move(headers);
      body_ = std::move(body);
      complete_ = true;
    });
  }
  void begin_stream(int status, http::Headers headers) override {
    change([&] {
      if (closed_) return;
      EXPECT_EQ(status_, 0) << "two heads";
      status_ = status;
      headers_ = std::move(headers);
    });
  }
  bool write(std::string chunk) override {
    bool open = false;
    change([&] {
      EXPECT_FALSE(complete_) << "written after the end: " << chunk;
      EXPECT_TRUE(closed_ || status_ != 0) << "written before the head: " << chunk;
      open = !closed_;
      if (open) body_ += chunk;
    });
    return open;
  }
  bool write_bulk(std::string chunk) override {
    change([&] { bulk_bytes_ += chunk.size(); });
    return write(std::move(chunk));
  }
  void end() override {
    change([&] { complete_ = true; });
  }
  void on_close(std::function<void()> callback) override {
    {
      const std::scoped_lock lock(mutex_);
      if (complete_) return;
      if (!closed_) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }
  bool is_open() const override {
    const std::scoped_lock lock(mutex_);
    return !closed_ && !complete_;
  }

  /// The client goes.
  void leave() {
    std::function<void()> callback;
    change([&] {
      closed_ = true;
      callback.swap(callback_);
    });
    if (callback) callback();
  }

  bool wait_complete() {
    return wait([&] { return complete_; });
  }
  /// Until the body has this text.
  bool wait_for(const std::string& text) {
    return wait([&] { return body_.find(text) != std::string::npos; });
  }
  bool complete() const {
    const std::scoped_lock lock(mutex_);
    return complete_;
  }
  int status() const {
    const std::scoped_lock lock(mutex_);
    return status_;
  }
  std::string body() const {
    const std::scoped_lock lock(mutex_);
    return body_;
  }
  nlohmann::json json() const { return nlohmann::json::parse(body(), nullptr, false); }
  size_t bulk_bytes() const {
    const std::scoped_lock lock(mutex_);
    return bulk_bytes_;
  }
  std::string header(std::string_view name) const {
    const std::scoped_lock lock(mutex_);
    return std::string(headers_.find(name).value_or(""));
  }
  /// The data of all events of a stream but "[DONE]", which must be the last.
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> events;
    const std::string all = body();
    bool done = false;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find("\n\n", at);
      const std::string frame = all.substr(at, end - at);
      at = end == std::string::npos ? all.size() : end + 2;
      if (frame.starts_with(":")) continue;
      EXPECT_TRUE(frame.starts_with("data: ")) << frame;
      EXPECT_FALSE(done) << "an event after [DONE]";
      done = frame == "data: [DONE]";
      if (!done) events.push_back(nlohmann::json::parse(frame.substr(6)));
    }
    EXPECT_TRUE(done) << all;
    return events;
  }

 private:
  template <class Change>
  void change(const Change& what) {
    const std::scoped_lock lock(mutex_);
    what();
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> callback_;
  bool closed_ = false;
  bool complete_ = false;
  int status_ = 0;
  http::Headers headers_;
  std::string body_;
  size_t bulk_bytes_ = 0;
};

/// The leader of a group, played by the test's own thread.
class FakeLeader final {
 public:
  explicit FakeLeader(const std::shared_ptr<transport::LoopbackHub>& hub)
      : transport_(transport::make_loopback_transport(hub)), endpoint_(transport_->bind("loop://g0").value()) {}

  bool accepts = true;  // what it takes with next()

  /// The next message of this kind; others are kept for later calls. Fails the test when none comes.
  template <class T>
  T next() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      for (size_t i = 0; i < inbox_.size(); ++i) {
        if (auto* found = std::get_if<T>(&inbox_[i])) {
          T message = std::move(*found);
          inbox_.erase(inbox_.begin() + static_cast<int64_t>(i));
          if constexpr (std::is_same_v<T, wire::Submit>) {
            if (accepts) send(wire::Accepted{message.request, "numerics of its group"});
          }
          return message;
        }
      }
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "the coordinator has not sent what was expected";
        return {};
      }
      transport_->wait(10 * kMs);
      pull();
    }
  }

  template <class T>
  size_t waiting() {
    pull();
    size_t count = 0;
    for (const auto& message : inbox_)
      count += std::holds_alternative<T>(message) ? 1 : 0;
    return count;
  }

  void send(const wire::Message& message) {
    const auto sent = transport_->send(endpoint_, peer_, wire::encode(message));
    EXPECT_TRUE(sent.ok()) << to_string(sent.error());
  }

  void serve(wire::GroupState state = wire::GroupState::kServing) {
    if (peer_.empty()) next<wire::Hello>();
    wire::Status status;
    status.incarnation = 5;
    status.epoch = 1;
    status.state = state;
    status.model = "demo";
    status.numerics_id = "numerics";
    status.fingerprint = "weights";
    status.slots = 4;
    status.max_queue = 8;
    status.ranks.push_back({0, 77, true, true, 9100});
    send(status);
  }

  void tokens(uint64_t request, uint32_t first_index, const std::vector<wire::TokenInfo>& tokens) {
    wire::Tokens message;
    message.chunks.push_back({request, first_index, tokens, 0, {}});
    send(message);
  }
  void tokens(uint64_t request, uint32_t first_index, const std::string& text) {
    std::vector<wire::TokenInfo> infos;
    for (const int32_t id : ids_of(text))
      infos.push_back({id, -0.5f, {}});
    tokens(request, first_index, infos);
  }
  void finish(uint64_t request, uint32_t generated, uint32_t cached = 0,
              wire::FinishReason reason = wire::FinishReason::kLength) {
    wire::Finished finished;
    finished.request = request;
    finished.reason = reason;
    finished.generated = generated;
    finished.cached_tokens = cached;
    send(finished);
  }
  /// Runs a whole sequence that says `text`.
  void run(uint64_t request, const std::string& text, uint32_t cached = 0) {
    tokens(request, 0, text);
    finish(request, static_cast<uint32_t>(ids_of(text).size()), cached);
  }

 private:
  void pull() {
    while (auto packet = transport_->receive()) {
      peer_ = packet->peer;
      auto message = wire::decode(packet->bytes);
      ASSERT_TRUE(message.ok()) << to_string(message.error());
      inbox_.push_back(*std::move(message));
    }
  }

  std::unique_ptr<transport::Transport> transport_;
  transport::EndpointId endpoint_;
  std::string peer_;
  std::vector<wire::Message> inbox_;
};

struct ApiFixture : testing::Test {
  /// Starts everything; `serving`: and waits until the group serves.
  void start(ApiOptions options = {}, bool serving = true) {
    if (options.model.name.empty()) options.model = demo_info();
    leader.emplace(hub);
    requests::CoreOptions core;
    core.name = "coordinator";
    core.incarnation = 3;
    core.groups = {"g0"};
    core.addresses = {"loop://g0"};
    core.tokenizer = options.model.tokenizer;
    cluster = requests::ClusterClient::start(std::move(core), transport::make_loopback_transport(hub), clock).value();
    api.emplace(std::move(options), *cluster, registry);
    handler = api->handler();
    if (!serving) return;
    leader->serve();
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!cluster->ready() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(cluster->ready());
  }

  void TearDown() override {
    for (const auto& responder : open)
      responder->leave();
    api.reset();
    cluster.reset();
  }

  std::shared_ptr<FakeResponder> send(http::Request request) {
    auto responder = open.emplace_back(std::make_shared<FakeResponder>());
    request.request_id = "r1";
    request.peer = "127.0.0.1:40000";
    request.target = request.path;
    handler(std::move(request), responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> post(const std::string& path, const std::string& body) {
    http::Request request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    return send(std::move(request));
  }
  std::shared_ptr<FakeResponder> complete(const std::string& fields, const std::string& prompt = "\"Hello\"") {
    return post("/v1/completions", body_of(fields, prompt));
  }
  /// A request that is answered at once.
  std::shared_ptr<FakeResponder> get(const std::string& path, const std::string& method = "GET",
                                     http::Headers headers = {}) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    auto responder = send(std::move(request));
    EXPECT_TRUE(responder->wait_complete());
    return responder;
  }

  double counter(metrics::CounterId id, std::initializer_list<std::string_view> labels = {}) {
    return registry.counter(id, labels).value();
  }

  SteadyClock clock;
  std::shared_ptr<transport::LoopbackHub> hub = transport::make_loopback_hub();
  metrics::Registry registry{metrics::Process::kCoordinator};
  std::optional<FakeLeader> leader;
  std::unique_ptr<requests::ClusterClient> cluster;
  std::optional<Api> api;
  http::Handler handler;
  std::vector<std::shared_ptr<FakeResponder>> open;
};

}  // namespace krait::api
