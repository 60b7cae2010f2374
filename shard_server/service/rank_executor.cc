#include <algorithm>
#include <mutex>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "shard_server/service/rank_worker.h"

namespace krait::shard {

RankExecutor::RankExecutor(RankOptions options, std::shared_ptr<const Checkpoint> checkpoint, const Clock& clock)
    : options_(std::move(options)), checkpoint_(std::move(checkpoint)), clock_(clock) {}

RankExecutor::~RankExecutor() = default;

std::optional<wire::Message> RankExecutor::execute(const wire::Message& command) {
  if (const auto* form = std::get_if<wire::Form>(&command)) return run(*form);
  if (const auto* load = std::get_if<wire::Load>(&command)) return run(*load);
  if (const auto* step = std::get_if<wire::Step>(&command)) return run(*step);
  if (const auto* leave = std::get_if<wire::Leave>(&command)) return run(*leave);
  log_warning("a command that ranks do not know was dropped");
  return std::nullopt;
}

std::optional<wire::Message> RankExecutor::run(const wire::Form& form) {
  drop();
  form_ = form;
  const auto formed = form_communicators();
  if (formed.ok()) return std::nullopt;
  log_error("rank {} cannot reach its peers: {}", options_.rank, to_string(formed.error()));
  drop();
  return wire::Failed{form.epoch, static_cast<uint32_t>(options_.rank), formed.error()};
}

std::optional<wire::Message> RankExecutor::run(const wire::Load& load) {
  if (!form_ || form_->epoch != load.epoch) return std::nullopt;
  auto ready = load_engine(load);
  if (ready.ok()) return *std::move(ready);
  log_error("rank {} cannot load: {}", options_.rank, to_string(ready.error()));
  drop();
  return wire::Failed{load.epoch, static_cast<uint32_t>(options_.rank), ready.error()};
}

Result<wire::Ready> RankExecutor::load_engine(const wire::Load& load) {
  EngineOptions options;
  options.rank = options_.rank;
  ASSIGN_OR_RETURN(options.partition, make_partition(checkpoint_->config(), options_.world, form_->shares));
  options.dtype = options_.dtype;
  options.slots = load.slots != 0 ? load.slots : options_.slots;
  options.state_memory_bytes = options_.state_memory_bytes;
  options.stream.threads = options_.threads;
  options.stream.may_spin = options_.may_spin;
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
  figures_ = {ready.numerics_id, engine_->weight_bytes(), engine_->state_bytes(), engine_->nonfinite_weights(), {}};
  return ready;
}

Status RankExecutor::form_communicators() {
  collectives::Options options;
  options.name = form_->bootstrap;
  options.epoch = form_->epoch;
  options.rank = options_.rank;
  options.world = options_.world;
  ASSIGN_OR_RETURN(const auto partition, make_partition(checkpoint_->config(), options_.world, form_->shares));
  options.order = partition.aligned ? collectives::ReduceOrder::kTree : collectives::ReduceOrder::kRankOrder;
  options.max_rows = limits::kLogitRowsPerPass;
  options.max_width = checkpoint_->config().hidden_size;
  options.may_spin = options_.may_spin;
  options.clock = &clock_;
  options.cancel = &leaving_;
  if (options_.hub_of != nullptr) options.hub = options_.hub_of(form_->bootstrap);
  std::optional<collectives::SubGroupRanks> sub;
  if (const auto group = sub_group(checkpoint_->config(), partition, options_.rank))
    sub = {.first = group->first, .world = group->world, .index = group->index};
  ASSIGN_OR_RETURN(auto communicators, collectives::GroupCommunicators::form(options_.communicator, options, sub));
  const std::scoped_lock lock(mutex_);
  communicators_ = std::move(communicators);
  return {};
}

std::optional<wire::Message> RankExecutor::run(const wire::Step& step) {
  if (!form_ || form_->epoch != step.epoch || engine_ == nullptr) return std::nullopt;
  communicators_->set_deadline_ns(clock_.now_ns() + step.deadline_ms * kMs);
  auto done = engine_->step(step, *communicators_, clock_);
  if (done.ok()) {
    const std::scoped_lock lock(mutex_);
    figures_.collectives = communicators_->statistics();
    return *std::move(done);
  }
  const Error error = done.error();
  log_error("rank {} failed in step {}: {}", options_.rank, step.step, to_string(error));
  // Peers wait for this rank's part of the next collective: tell them at once.
  communicators_->abort(to_string(error));
  drop();
  return wire::Failed{step.epoch, static_cast<uint32_t>(options_.rank), error};
}

std::optional<wire::Message> RankExecutor::run(const wire::Leave&) {
  drop();
  return std::nullopt;
}

void RankExecutor::drop() {
  form_.reset();
  engine_.reset();
  const std::scoped_lock lock(mutex_);
  communicators_.reset();
  figures_ = {};
}

void RankExecutor::abort(const std::string& reason) {
  std::shared_ptr<collectives::GroupCommunicators> communicators;
  {
    const std::scoped_lock lock(mutex_);
    communicators = communicators_;
  }
  if (communicators != nullptr) communicators->abort(reason);
}

RankFigures RankExecutor::figures() const {
  const std::scoped_lock lock(mutex_);
  return figures_;
}

}  // namespace krait::shard
