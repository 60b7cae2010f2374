// The core on its thread, over a transport, with a leader that the test plays: calls from any thread, news to sinks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/base/limits.h"
#include "common/transport/loopback_transport.h"
#include "common/wire/codec.h"
#include "coordinator/requests/cluster_client.h"

namespace krait::test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // an end to hanging, no timing assertion

/// A sink that another thread waits on.
class WaitingSink final : public requests::GenerationSink {
 public:
  void on_chunk(requests::OutputChunk chunk) override {
    const std::scoped_lock lock(mutex_);
    tokens_ += chunk.tokens.size();
    over_ = over_ || chunk.end.has_value();
    changed_.notify_all();
  }
  void on_error(const Error& error, uint32_t retry_after_s) override {
    const std::scoped_lock lock(mutex_);
    error_ = error;
    retry_after_s_ = retry_after_s;
    over_ = true;
    changed_.notify_all();
  }
  /// Whether it came to an end.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return over_; });
  }
  size_t tokens() const {
    const std::scoped_lock lock(mutex_);
    return tokens_;
  }
  uint32_t retry_after_s() const {
    const std::scoped_lock lock(mutex_);
    return retry_after_s_;
  }
  std::optional<Error> error() const {
    const std::scoped_lock lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t tokens_ = 0;
  bool over_ = false;
  std::optional<Error> error_;
  uint32_t retry_after_s_ = 0;
};

class Client : public testing::Test {
 protected:
  void SetUp() override { start({}, {}); }

  /// With a new leader, which has not said anything yet.
  void start(requests::CoreOptions options, const requests::CoreObserver& observer) {
    client.reset();
    hub = transport::make_loopback_hub();
    leader = transport::make_loopback_transport(hub);
    endpoint = leader->bind("loop://leader").value();
    options.name = "coordinator";
    options.incarnation = 3;
    options.groups = {"g"};
    options.addresses = {"loop://leader"};
    client = requests::ClusterClient::start(options, transport::make_loopback_transport(hub), clock, observer).value();
  }

  void say(const wire::Message& message) {
    ASSERT_TRUE(leader->send(endpoint, "coordinator", wire::encode(message)).ok());
  }

  void serve(double backlog_seconds = 0) {
    ASSERT_TRUE(heard<wire::Hello>().has_value());
    wire::Status status;
    status.incarnation = 9;
    status.state = wire::GroupState::kServing;
    status.model = "m";
    status.backlog_seconds = backlog_seconds;
    say(status);
    wait_until([this] { return client->ready(); });
  }

  template <class T>
  std::optional<T> heard() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      if (const auto packet = leader->receive()) {
        const auto message = wire::decode(packet->bytes).value();
        if (const auto* it = std::get_if<T>(&message)) return *it;
      } else {
        leader->wait(limits::kCoreTickNs);
      }
    }
    return std::nullopt;
  }

  static void wait_until(const std::function<bool()>& done) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static requests::GenerationSpec spec() {
    requests::GenerationSpec spec;
    spec.model = "m";
    spec.prompts = {{{1, 2}}};
    return spec;
  }

  void answer(uint64_t request) {
    wire::Tokens tokens;
    tokens.chunks.push_back({request, 0, {{5, 0, {}}, {6, 0, {}}}, 0, {}});
    say(tokens);
    wire::Finished finished;
    finished.request = request;
    finished.reason = wire::FinishReason::kLength;
    finished.generated = 2;
    say(finished);
  }

  std::shared_ptr<transport::LoopbackHub> hub = transport::make_loopback_hub();
  ManualClock clock{1};
  std::unique_ptr<transport::Transport> leader;
  transport::EndpointId endpoint = -1;
  std::unique_ptr<requests::ClusterClient> client;
};

TEST_F(Client, NothingIsReadyBeforeTheGroupAnswers) {
  EXPECT_FALSE(client->ready());
  ASSERT_EQ(client->groups().size(), 1u);
  EXPECT_FALSE(client->groups()[0].connected);
  const auto sink = std::make_shared<WaitingSink>();
  client->submit(spec(), sink);
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->error()->code, Errc::kUnavailable);
}

TEST_F(Client, ManyThreadsSubmitAndEachGetsItsOwnAnswer) {
  serve();
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::shared_ptr<WaitingSink>> sinks(kThreads * kEach);
  std::mutex mutex;
  std::set<requests::RequestId> ids;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        auto& sink = sinks[static_cast<size_t>(t * kEach + i)];
        sink = std::make_shared<WaitingSink>();
        const auto id = client->submit(spec(), sink);
        const std::scoped_lock lock(mutex);
        ids.insert(id);
      }
    });
  }
  for (int i = 0; i < kThreads * kEach; ++i) {
    const auto submit = heard<wire::Submit>();
    ASSERT_TRUE(submit.has_value());
    answer(submit->request);
  }
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(ids.size(), sinks.size());
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_FALSE(sink->error().has_value());
    EXPECT_EQ(sink->tokens(), 2u);
  }
  wait_until([this] { return client->open_requests() == 0; });
}

TEST_F(Client, CancelReachesTheGroup) {
  serve();
  const auto sink = std::make_shared<WaitingSink>();
  const auto id = client->submit(spec(), sink);
  const auto submit = heard<wire::Submit>();
  ASSERT_TRUE(submit.has_value());
  client->cancel(id);
  const auto cancel = heard<wire::Cancel>();
  ASSERT_TRUE(cancel.has_value());
  EXPECT_EQ(cancel->request, submit->request);
  wait_until([this] { return client->open_requests() == 0; });
  EXPECT_FALSE(sink->error().has_value());
}

TEST_F(Client, RefuseNewLetsOpenRequestsEnd) {
  serve();
  const auto before = std::make_shared<WaitingSink>();
  client->submit(spec(), before);
  const auto submit = heard<wire::Submit>();
  ASSERT_TRUE(submit.has_value());
  client->refuse_new();
  const auto after = std::make_shared<WaitingSink>();
  client->submit(spec(), after);
  ASSERT_TRUE(after->wait());
  EXPECT_EQ(after->error()->code, Errc::kUnavailable);
  answer(submit->request);
  ASSERT_TRUE(before->wait());
  EXPECT_FALSE(before->error().has_value());
}

TEST_F(Client, ASilentGroupIsNoLongerReady) {
  serve();
  const auto sink = std::make_shared<WaitingSink>();
  client->submit(spec(), sink);
  ASSERT_TRUE(heard<wire::Submit>().has_value());
  clock.advance(limits::kPeerTimeoutNs + 1);
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->error()->code, Errc::kUnavailable);
  wait_until([this] { return !client->ready(); });
}

TEST_F(Client, WhatIsNoMessageIsDroppedAndTheRestIsHeard) {
  std::atomic<int> dropped = 0;
  requests::CoreObserver observer;
  observer.on_bad_message = [&] { ++dropped; };
  start({}, observer);
  serve();
  ASSERT_TRUE(leader->send(endpoint, "coordinator", std::vector<std::byte>(40, std::byte{0x5a})).ok());
  const auto sink = std::make_shared<WaitingSink>();
  client->submit(spec(), sink);
  const auto submit = heard<wire::Submit>();
  ASSERT_TRUE(submit.has_value());
  answer(submit->request);
  ASSERT_TRUE(sink->wait());
  EXPECT_FALSE(sink->error().has_value());
  EXPECT_EQ(dropped, 1) << "and counted";
}

TEST_F(Client, AGroupThatTakesNothingMoreFailsTheRequestAtOnce) {
  hub = transport::make_loopback_hub(1);
  leader = transport::make_loopback_transport(hub);
  endpoint = leader->bind("loop://leader").value();
  requests::CoreOptions options;
  options.name = "coordinator";
  options.groups = {"g"};
  options.addresses = {"loop://leader"};
  client = requests::ClusterClient::start(options, transport::make_loopback_transport(hub), clock).value();
  serve();
  // The queue to the leader holds one message, and nobody takes any.
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<WaitingSink>());
    client->submit(spec(), sinks.back());
  }
  ASSERT_TRUE(sinks[2]->wait());
  EXPECT_EQ(sinks[2]->error()->code, Errc::kUnavailable);
}

TEST_F(Client, AFloodIsRefusedWithATimeToComeAgainAndANewcomerIsNot) {
  requests::CoreOptions options;
  options.max_open_sequences = 8;
  start(options, {});
  serve(17.2);
  const auto send_as = [&](const std::string& who) {
    auto asked = spec();
    asked.client = who;
    auto sink = std::make_shared<WaitingSink>();
    client->submit(std::move(asked), sink);
    return sink;
  };
  std::vector<std::shared_ptr<WaitingSink>> sinks;
  for (int i = 0; i < 8; ++i)
    sinks.push_back(send_as("hog"));
  const auto refused = send_as("hog");
  ASSERT_TRUE(refused->error().has_value()) << "said at once: nothing is put in the inbox";
  EXPECT_EQ(refused->error()->code, Errc::kOverloaded);
  EXPECT_EQ(refused->retry_after_s(), 18u);
  sinks.push_back(send_as("modest"));
  EXPECT_TRUE(send_as("modest")->error().has_value()) << "the reserve of eight is one";
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto submit = heard<wire::Submit>();
    ASSERT_TRUE(submit.has_value());
    answer(submit->request);
  }
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_FALSE(sink->error().has_value());
  }
  wait_until([this] { return client->open_requests() == 0; });
  const auto later = send_as("hog");
  const auto submit = heard<wire::Submit>();
  ASSERT_TRUE(submit.has_value()) << "what has ended makes room";
  answer(submit->request);
  ASSERT_TRUE(later->wait());
}

TEST_F(Client, StopStringsAndBiasesCountAsTheTokensThatTheirMemoryCouldHold) {
  requests::CoreOptions options;
  options.max_open_tokens = 100'000;
  start(options, {});
  serve();
  auto asked = spec();
  asked.prompts[0].tokens.assign(10'000, 1);
  asked.n = 9;
  const auto first = std::make_shared<WaitingSink>();
  client->submit(asked, first);
  EXPECT_FALSE(first->error().has_value());
  auto large = spec();
  large.shared.stop = std::make_shared<const tokenizer::StopStrings>(std::vector<std::string>{std::string(4'000, 'x')});
  const auto refused = std::make_shared<WaitingSink>();
  client->submit(large, refused);
  ASSERT_TRUE(refused->error().has_value());
  EXPECT_EQ(refused->error()->code, Errc::kOverloaded);
  const auto small = std::make_shared<WaitingSink>();
  client->submit(spec(), small);
  EXPECT_FALSE(small->error().has_value());
}

TEST_F(Client, AnAddressThatCannotBeIsAnErrorAtTheStart) {
  requests::CoreOptions options;
  options.groups = {"g"};
  options.addresses = {"carrier pigeon"};
  EXPECT_FALSE(requests::ClusterClient::start(options, transport::make_loopback_transport(hub), clock).ok());
}

}  // namespace
}  // namespace krait::test
