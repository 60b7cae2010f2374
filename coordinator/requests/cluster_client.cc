#include "coordinator/requests/cluster_client.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/limits.h"
#include "coordinator/requests/core_loop.h"

namespace krait::requests {

/// The thread, its inbox and what others may see of it.
class ClusterClient::Loop final {
 public:
  Loop(CoreOptions options, std::unique_ptr<transport::Transport> transport, const Clock& clock, CoreObserver observer)
      : transport_(std::move(transport)), core_(std::move(options), *transport_, clock, std::move(observer)) {}

  ~Loop() {
    stop_ = true;
    transport_->wake();
    if (thread_.joinable()) thread_.join();
  }

  Status connect() {
    RETURN_IF_ERROR(core_.connect());
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
    const std::scoped_lock lock(mutex_);
    return groups_;
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
        item(core_.core());
      core_.turn();
      publish();
    }
  }

  void publish() {
    auto groups = core_.core().groups();
    open_requests_ = core_.core().open_requests();
    const std::scoped_lock lock(mutex_);
    groups_ = std::move(groups);
  }

  std::unique_ptr<transport::Transport> transport_;
  CoreLoop core_;
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
