#include "deploy/tools/local_group.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/rng.h"
#include "deploy/tools/network_rank.h"
#include "shard_server/collectives/bootstrap.h"
#include "shard_server/service/collective_plan.h"
#include "shard_server/service/engine_rank.h"
#include "shard_server/service/host_place.h"

namespace krait::tools {

Status choose_sums(LocalGroupOptions& options, const std::string& mode, const std::string& plan_path,
                   const Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(auto sums, shard::choose_sums({.mode = mode,
                                                  .plan_path = plan_path,
                                                  .world = static_cast<uint32_t>(options.ranks),
                                                  .dtype = std::string(weight_type_name(options.dtype))},
                                                 checkpoint));
  options.codec = std::move(sums.codec);
  options.plan = std::move(sums.plan);
  return {};
}

LocalGroup::LocalGroup(std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock)
    : checkpoint_(std::move(checkpoint)), clock_(clock), epoch_(random_u64()) {}

LocalGroup::~LocalGroup() {
  for (auto& worker : workers_)
    worker->abort("the group is given up");
}

Result<std::unique_ptr<LocalGroup>> LocalGroup::start(std::shared_ptr<const Checkpoint> checkpoint,
                                                      const LocalGroupOptions& options, const Clock& clock) {
  std::unique_ptr<LocalGroup> group(new LocalGroup(std::move(checkpoint), clock));
  group->whole_weights_ = options.whole_weights;
  const auto most = static_cast<uint32_t>(options.whole_weights ? options.ranks : 1);
  group->prompt_ranks_ = options.prompt_ranks == 0 ? most : std::min(most, options.prompt_ranks);
  RETURN_IF_ERROR(group->start_ranks(options));
  RETURN_IF_ERROR(group->load(options));
  return group;
}

Status LocalGroup::start_ranks(const LocalGroupOptions& options) {
  const auto world = static_cast<size_t>(options.ranks);
  answers_.resize(world);
  engines_.resize(world);
  for (size_t rank = 0; rank < world; ++rank) {
    shard::RankOptions self;
    self.rank = static_cast<int>(rank);
    self.world = options.ranks;
    self.whole_weights = options.whole_weights;
    self.dtype = options.dtype;
    self.threads = options.threads;
    self.slots = options.slots;
    self.on_load = [this, rank](shard::Engine& engine) { engines_[rank] = &engine; };
    self.may_overlap = options.may_overlap;
    const std::string network = options.networks.empty() ? "" : options.networks[rank];
    if (rank == 0 && !options.address.empty()) {
      ASSIGN_OR_RETURN(self.listener, listen_in_network(network, options.address));
      address_ = self.listener->address();
    }
    RETURN_IF_ERROR(
        shard::share_host(self, *checkpoint_, {}, {.ranks = options.ranks, .index = static_cast<int64_t>(rank)}));
    auto model = make_network_rank(network, std::make_unique<shard::EngineRank>(self, checkpoint_, clock_));
    auto executor = std::make_unique<shard::RankExecutor>(static_cast<uint32_t>(rank), std::move(model));
    workers_.push_back(std::make_unique<shard::RankWorker>(std::move(executor), [this, rank](wire::Message answer) {
      {
        const std::scoped_lock lock(mutex_);
        answers_[rank].push_back(std::move(answer));
      }
      answered_.notify_one();
    }));
  }
  return {};
}

Status LocalGroup::load(const LocalGroupOptions& options) {
  wire::Form form;
  form.epoch = epoch_;
  form.world = static_cast<uint32_t>(options.ranks);
  form.path = kernels::cpu_path_name(kernels::best_cpu_path());
  form.codec = options.codec;
  form.plan = options.plan;
  form.bootstrap = collectives::Bootstrap{address_.empty() ? "shared_memory" : "tcp",
                                          fmt::format("krait-tool-{}-{:016x}", getpid(), epoch_), address_}
                       .to_text();
  for (auto& worker : workers_) {
    CHECK(worker->post(form));
    CHECK(worker->post(wire::Load{epoch_, options.slots}));
  }
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    ASSIGN_OR_RETURN(const wire::Message answer, answer_of(rank));
    const auto& ready = std::get<wire::Ready>(answer);
    if (rank == 0) {
      ready_ = ready;
      continue;
    }
    ready_.slots = std::min(ready_.slots, ready.slots);
    ready_.max_rows = std::min(ready_.max_rows, ready.max_rows);
    ready_.kv_pages = std::min(ready_.kv_pages, ready.kv_pages);
    ready_.weight_bytes += ready.weight_bytes;
  }
  return {};
}

Result<wire::Message> LocalGroup::answer_of(size_t rank) {
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [&] { return !answers_[rank].empty(); });
  wire::Message answer = std::move(answers_[rank].front());
  answers_[rank].pop_front();
  if (const auto* failed = std::get_if<wire::Failed>(&answer)) return failed->error;
  return answer;
}

void LocalGroup::post(wire::Step step) {
  step.epoch = epoch_;
  for (auto& worker : workers_)
    CHECK(worker->post(step));
}

Result<std::vector<wire::StepDone>> LocalGroup::wait() {
  std::vector<wire::StepDone> all;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    ASSIGN_OR_RETURN(wire::Message answer, answer_of(rank));
    all.push_back(std::get<wire::StepDone>(std::move(answer)));
    if (all.back().step != all.front().step || all.back().digest != all.front().digest) {
      return Error{Errc::kInternal, fmt::format("ranks 0 and {} differ in step {}", rank, all.front().step), ""};
    }
  }
  return all;
}

Result<wire::StepDone> LocalGroup::step(wire::Step step) {
  post(std::move(step));
  ASSIGN_OR_RETURN(auto all, wait());
  return Result<wire::StepDone>(std::move(all.front()));
}

collectives::Statistics LocalGroup::collectives(int rank) const {
  collectives::Statistics all{};
  for (const auto& of_codec : workers_[static_cast<size_t>(rank)]->figures().collectives)
    collectives::add_statistics(of_codec, all);
  return all;
}

}  // namespace krait::tools
