#include "shard_server/service/engine_rank.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "kernels/device/cores.h"
#include "shard_server/collectives/bootstrap.h"
#include "shard_server/collectives/registry.h"
#include "shard_server/service/collective_plan.h"

namespace krait::shard {

EngineRank::EngineRank(RankOptions options, std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock)
    : options_(std::move(options)), checkpoint_(std::move(checkpoint)), clock_(clock) {}

EngineRank::~EngineRank() = default;

Status EngineRank::form(const wire::Form& form, const std::atomic<bool>& leaving) {
  ASSIGN_OR_RETURN(const auto bootstrap, collectives::Bootstrap::parse(form.bootstrap));
  ASSIGN_OR_RETURN(const auto factory, collectives::find_collective(bootstrap.transport));
  RETURN_IF_ERROR(codecs_of(form, checkpoint_->plan()));
  collectives::Options options;
  ASSIGN_OR_RETURN(options.algorithms, algorithms_of(form.plan));
  options.name = bootstrap.name;
  options.address = bootstrap.address;
  options.listener = options_.listener;
  options.epoch = form.epoch;
  options.rank = options_.rank;
  options.world = options_.world;
  ASSIGN_OR_RETURN(const auto partition, make_partition(checkpoint_->config(), options_.parts(), form.shares));
  options.order = partition.aligned ? collectives::ReduceOrder::kTree : collectives::ReduceOrder::kRankOrder;
  options.max_rows = limits::kLogitRowsPerPass;
  if (!options.algorithms->is_empty()) {
    options.max_rows = limits::kMaxStepRows;
    options.stage_bytes = options.algorithms->most_stage_bytes();
  }
  options.max_width = checkpoint_->config().hidden_size;
  options.may_spin = options_.may_spin;
  options.clock = &clock_;
  options.cancel = &leaving;
  if (options_.hub_of != nullptr) options.hub = options_.hub_of(bootstrap.name);
  std::optional<collectives::SubGroupRanks> sub;
  if (const auto group = sub_group(checkpoint_->config(), partition, options_.part()))
    sub = {.first = group->first, .world = group->world, .index = group->index};
  ASSIGN_OR_RETURN(auto communicators, options_.whole_weights
                                           ? collectives::GroupCommunicators::form_alone(factory, options)
                                           : collectives::GroupCommunicators::form(factory, options, sub));
  form_ = form;
  const std::scoped_lock lock(mutex_);
  communicators_ = std::move(communicators);
  return {};
}

Result<wire::Ready> EngineRank::load(const wire::Load& load) {
  CHECK(form_.has_value());
  EngineOptions options;
  options.rank = options_.part();
  ASSIGN_OR_RETURN(options.partition, make_partition(checkpoint_->config(), options_.parts(), form_->shares));
  if (options_.whole_weights) options.homes = {options_.rank, options_.world};
  options.dtype = options_.dtype;
  ASSIGN_OR_RETURN(options.codecs, codecs_of(*form_, checkpoint_->plan()));
  options.slots = load.slots != 0 ? load.slots : options_.slots;
  options.state_memory_bytes = options_.state_memory_bytes;
  // Through memory a sum is short beside what two smaller products cost.
  if (options_.may_overlap && communicators_->group().transport() == "tcp") options.overlap_rows = limits::kOverlapRows;
  options.stream.threads = options_.threads;
  options.stream.may_spin = options_.may_spin;
  options.stream.cpus = options_.cpus;
  if (options_.node >= 0 && !kernels::prefer_node(options_.node))
    log_warning("memory cannot be kept on NUMA node {}: the system refuses", options_.node);
  const auto path = kernels::cpu_path_from_name(form_->path);
  if (!path || *path > kernels::best_cpu_path()) {
    return Error{Errc::kUnsupported, fmt::format("this machine has no instruction path '{}'", form_->path), "path"};
  }
  options.stream.path = *path;
  const int64_t start_ns = clock_.now_ns();
  ASSIGN_OR_RETURN(engine_, Engine::load(checkpoint_, options));
  if (options_.on_load) options_.on_load(*engine_);

  wire::Ready ready;
  ready.epoch = load.epoch;
  ready.rank = static_cast<uint32_t>(options_.rank);
  ready.slots = engine_->slots();
  ready.max_rows = engine_->max_rows();
  ready.kv_pages = engine_->kv_pages();
  ready.numerics_id = engine_->numerics_id();
  ready.weight_bytes = static_cast<uint64_t>(engine_->weight_bytes());
  ready.state_bytes = static_cast<uint64_t>(engine_->state_bytes());
  ready.non_finite = static_cast<uint64_t>(engine_->nonfinite_weights());
  log_info("rank {} of {} is loaded: {} MiB of weights, {} slots of {} KiB, steps of up to {} rows, {:.1f} s",
           options_.rank, options_.world, ready.weight_bytes / kMiB, ready.slots,
           ready.state_bytes / std::max<uint64_t>(1, ready.slots) / kKiB, ready.max_rows,
           static_cast<double>(clock_.now_ns() - start_ns) / 1e9);
  const std::scoped_lock lock(mutex_);
  figures_ = {ready.numerics_id,      engine_->collective_plan(),   engine_->weight_bytes(),
              engine_->state_bytes(), engine_->nonfinite_weights(), {}};
  return ready;
}

Result<wire::StepDone> EngineRank::step(const wire::Step& step) {
  CHECK(engine_ != nullptr);
  communicators_->set_deadline_ns(clock_.now_ns() + step.deadline_ms * kMs);
  ASSIGN_OR_RETURN(auto done, engine_->step(step, *communicators_, clock_));
  const std::scoped_lock lock(mutex_);
  figures_.collectives = communicators_->codec_statistics();
  return done;
}

void EngineRank::drop() {
  form_.reset();
  engine_.reset();
  const std::scoped_lock lock(mutex_);
  communicators_.reset();
  figures_ = {};
}

void EngineRank::abort(const std::string& reason) {
  std::shared_ptr<collectives::GroupCommunicators> communicators;
  {
    const std::scoped_lock lock(mutex_);
    communicators = communicators_;
  }
  if (communicators != nullptr) communicators->abort(reason);
}

RankFigures EngineRank::figures() const {
  const std::scoped_lock lock(mutex_);
  return figures_;
}

}  // namespace krait::shard
