#include "deploy/tools/network_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "shard_server/collectives/fd.h"

namespace krait::tools {
namespace {

Status enter_network(const std::string& network) {
  const std::string path = fmt::format("/run/netns/{}", network);
  const collectives::Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (space.is_open() && setns(space.get(), CLONE_NEWNET) == 0) return {};
  return Error{Errc::kIo, fmt::format("cannot enter the network {}: {}", path, std::strerror(errno)), "network"};
}

class NetworkRank final : public shard::RankModel {
 public:
  NetworkRank(std::string network, std::unique_ptr<shard::RankModel> model)
      : network_(std::move(network)), model_(std::move(model)) {}

  Status form(const wire::Form& form, const std::atomic<bool>& leaving) override {
    if (!network_.empty()) RETURN_IF_ERROR(enter_network(network_));
    network_.clear();
    return model_->form(form, leaving);
  }
  Result<wire::Ready> load(const wire::Load& load) override { return model_->load(load); }
  Result<wire::StepDone> step(const wire::Step& step) override { return model_->step(step); }
  void drop() override { model_->drop(); }
  void abort(const std::string& reason) override { model_->abort(reason); }
  shard::RankFigures figures() const override { return model_->figures(); }

 private:
  std::string network_;  // until it is entered
  const std::unique_ptr<shard::RankModel> model_;
};

}  // namespace

std::unique_ptr<shard::RankModel> make_network_rank(std::string network, std::unique_ptr<shard::RankModel> model) {
  return std::make_unique<NetworkRank>(std::move(network), std::move(model));
}

Result<std::shared_ptr<collectives::TcpListener>> listen_in_network(const std::string& network,
                                                                    const std::string& address) {
  if (network.empty()) return collectives::TcpListener::open(address);
  std::optional<Result<std::shared_ptr<collectives::TcpListener>>> listener;
  // A socket is of the network that its thread was in, and this thread stays where it is.
  std::thread([&] {
    const Status entered = enter_network(network);
    listener = entered.ok() ? collectives::TcpListener::open(address) : entered.error();
  }).join();
  return *std::move(listener);
}

}  // namespace krait::tools
