#include "coordinator/requests/cluster_client.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/reminder.h"
#include "common/base/thread.h"
#include "common/wire/addresses.h"
#include "coordinator/requests/core_loop.h"
#include "coordinator/requests/open_requests.h"

namespace krait::requests {

/// Holds a request's part of what may be open, as long as the core knows of it.
class HoldingSink final : public GenerationSink {
 public:
  HoldingSink(std::shared_ptr<GenerationSink> sink, OpenRequests::Hold hold)
      : hold_(std::move(hold)), sink_(std::move(sink)) {}
  void on_chunk(OutputChunk chunk) override { sink_->on_chunk(std::move(chunk)); }
  void on_error(const Error& error, uint32_t retry_after_s) override { sink_->on_error(error, retry_after_s); }

 private:
  const OpenRequests::Hold hold_;
  const std::shared_ptr<GenerationSink> sink_;
};

/// The thread, its inbox and what others may see of it.
class ClusterClient::Loop final {
 public:
  Loop(CoreOptions options, std::unique_ptr<transport::Transport> transport, const Clock& clock, CoreObserver observer)
      : addresses_(options.addresses),
        transport_(std::move(transport)),
        clock_(clock),
        open_(options.max_open_sequences, options.max_open_tokens),
        core_(std::move(options), *transport_, clock, std::move(observer)) {}

  ~Loop() {
    stop_ = true;
    transport_->wake();
    if (thread_.joinable()) thread_.join();
  }

  Status connect() {
    RETURN_IF_ERROR(core_.connect());
    publish();
    thread_ = start_thread("the requests' core", [this] { run(); });
    return {};
  }

  void post(std::function<void(RequestCore&)> work) {
    {
      const std::scoped_lock lock(mutex_);
      inbox_.push_back(std::move(work));
    }
    transport_->wake();
  }

  std::vector<GroupSnapshot> groups() const {
    std::vector<GroupSnapshot> groups;
    {
      const std::scoped_lock lock(mutex_);
      groups = groups_;
    }
    // This thread may run before the core's does, after both were stopped.
    for (auto& group : groups) {
      const bool silent = clock_.now_ns() - group.last_heard_ns > limits::kPeerTimeoutNs;
      group.connected = group.connected && !silent;
      group.serving = group.serving && !silent;
    }
    return groups;
  }
  uint32_t open_requests() const { return open_requests_; }
  std::optional<OpenRequests::Hold> take_room(const GenerationSpec& spec) { return open_.take(spec); }
  uint32_t retry_after_s() const {
    const std::scoped_lock lock(mutex_);
    double least_s = limits::kMaxRetryAfterS;
    for (const auto& group : groups_) {
      if (group.serving) least_s = std::min(least_s, group.status.backlog_seconds);
    }
    return static_cast<uint32_t>(std::ceil(std::max(1.0, least_s)));
  }
  RequestId next_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void run() {
    while (!stop_) {
      transport_->wait(limits::kCoreTickNs);
      std::vector<std::function<void(RequestCore&)>> work;
      {
        const std::scoped_lock lock(mutex_);
        work.swap(inbox_);
      }
      for (auto& item : work)
        item(core_.core());
      core_.turn();
      publish();
      say_what_is_awaited();
    }
  }

  void say_what_is_awaited() {
    const int64_t now_ns = clock_.now_ns();
    reminders_.resize(addresses_.size());
    for (size_t group = 0; group < addresses_.size(); ++group) {
      const GroupSnapshot& known = groups_[group];  // written by this thread alone
      if (!reminders_[group].due(!known.connected, now_ns)) continue;
      log_warning("waiting for the leader of group {} at {} for {} s: {}", known.name, addresses_[group],
                  reminders_[group].seconds(now_ns), wire::why_silent(addresses_[group]));
    }
  }

  void publish() {
    auto groups = core_.core().groups();
    open_requests_ = core_.core().open_requests();
    const std::scoped_lock lock(mutex_);
    groups_ = std::move(groups);
  }

  const std::vector<std::string> addresses_;
  std::unique_ptr<transport::Transport> transport_;
  const Clock& clock_;
  OpenRequests open_;  // before whatever holds parts of it
  CoreLoop core_;
  std::vector<Reminder> reminders_;  // one a group
  std::atomic<bool> stop_ = false;
  std::atomic<uint32_t> open_requests_ = 0;
  std::atomic<RequestId> next_id_ = 1;
  mutable std::mutex mutex_;
  std::vector<std::function<void(RequestCore&)>> inbox_;  // of an open request one submit and one cancel at most
  std::vector<GroupSnapshot> groups_;
  std::thread thread_;
};

ClusterClient::ClusterClient(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
ClusterClient::~ClusterClient() = default;

Result<std::unique_ptr<ClusterClient>> ClusterClient::start(CoreOptions options,
                                                            std::unique_ptr<transport::Transport> transport,
                                                            const Clock& clock, CoreObserver observer) {
  auto loop = std::make_unique<Loop>(std::move(options), std::move(transport), clock, std::move(observer));
  RETURN_IF_ERROR(loop->connect());
  return std::unique_ptr<ClusterClient>(new ClusterClient(std::move(loop)));
}

RequestId ClusterClient::submit(GenerationSpec spec, std::shared_ptr<GenerationSink> sink) {
  const RequestId id = loop_->next_id();
  auto hold = loop_->take_room(spec);
  if (!hold) {
    sink->on_error(Error{Errc::kOverloaded, "too many requests are open; try again later", ""}, retry_after_s());
    return id;
  }
  sink = std::make_shared<HoldingSink>(std::move(sink), *std::move(hold));
  loop_->post([id, spec = std::move(spec), sink = std::move(sink)](RequestCore& core) mutable {
    core.submit(id, std::move(spec), std::move(sink));
  });
  return id;
}

void ClusterClient::cancel(RequestId request) {
  loop_->post([request](RequestCore& core) { core.cancel(request); });
}

std::vector<GroupSnapshot> ClusterClient::groups() const {
  return loop_->groups();
}

uint32_t ClusterClient::retry_after_s() const {
  return loop_->retry_after_s();
}

bool ClusterClient::ready() const {
  const auto groups = loop_->groups();
  return !groups.empty() && std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.serving; });
}

uint32_t ClusterClient::open_requests() const {
  return loop_->open_requests();
}

void ClusterClient::refuse_new() {
  loop_->post([](RequestCore& core) { core.drain(); });
}

void ClusterClient::fail_open(const Error& error) {
  loop_->post([error](RequestCore& core) { core.fail_all(error); });
}

}  // namespace krait::requests
