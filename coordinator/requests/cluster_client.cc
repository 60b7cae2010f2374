#include "coordinator/requests/cluster_client.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/reminder.h"
#include "common/wire/codec.h"

namespace krait::requests {

/// The thread, its inbox and what others may see of it.
class ClusterClient::Loop final {
 public:
  Loop(CoreOptions options, std::unique_ptr<transport::Transport> transport, const Clock& clock, CoreObserver observer)
      : addresses_(options.addresses),
        name_(options.name),
        transport_(std::move(transport)),
        clock_(clock),
        core_(std::move(options), clock, std::move(observer)) {}

  ~Loop() {
    stop_ = true;
    transport_->wake();
    if (thread_.joinable()) thread_.join();
  }

  Status connect() {
    for (const auto& address : addresses_) {
      ASSIGN_OR_RETURN(const auto endpoint, transport_->connect(address, name_));
      endpoints_.push_back(endpoint);
    }
    publish();
    thread_ = std::thread([this] { run(); });
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
        item(core_);
      for (int taken = 0; taken < limits::kMessagesPerTick; ++taken) {
        auto packet = transport_->receive();
        if (!packet) break;
        take(*packet);
      }
      core_.tick();
      send_all();
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
      log_warning("waiting for the leader of group {} at {}: nothing was heard from there for {} s", known.name,
                  addresses_[group], reminders_[group].seconds(now_ns));
    }
  }

  void take(const transport::Packet& packet) {
    for (size_t group = 0; group < endpoints_.size(); ++group) {
      if (endpoints_[group] != packet.endpoint) continue;
      auto message = wire::decode(packet.bytes);
      if (message.ok()) {
        core_.from_group(group, *std::move(message));
      } else {
        log_warning("a message of group {} was dropped: {}", group, to_string(message.error()));
      }
    }
  }

  void send_all() {
    for (auto& out : core_.take_outgoing()) {
      const auto sent = transport_->send(endpoints_[out.group], "", wire::encode(out.message));
      if (!sent.ok()) core_.send_failed(out.group, out.message);
    }
  }

  void publish() {
    auto groups = core_.groups();
    open_requests_ = core_.open_requests();
    const std::scoped_lock lock(mutex_);
    groups_ = std::move(groups);
  }

  const std::vector<std::string> addresses_;
  const std::string name_;
  std::unique_ptr<transport::Transport> transport_;
  std::vector<transport::EndpointId> endpoints_;
  const Clock& clock_;
  RequestCore core_;
  std::vector<Reminder> reminders_;  // one a group
  std::atomic<bool> stop_ = false;
  std::atomic<uint32_t> open_requests_ = 0;
  std::atomic<RequestId> next_id_ = 1;
  mutable std::mutex mutex_;
  std::vector<std::function<void(RequestCore&)>> inbox_;
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
