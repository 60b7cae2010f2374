// How the leader's group comes together: who may join, what all are told, and what the scheduler may rely on.
#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "kernels/device/cpu_path.h"
#include "shard_server/collectives/bootstrap.h"
#include "shard_server/service/leader.h"

namespace krait::shard {
namespace {

std::string_view layout(const wire::Join& join) {
  return join.whole_weights ? "whole" : "cut";
}

/// The best instruction path that all ranks have.
std::string lowest_path(const std::vector<std::string>& paths) {
  auto lowest = kernels::CpuPath::kAvx512Bf16;
  for (const auto& path : paths) {
    lowest = std::min(lowest, kernels::cpu_path_from_name(path).value_or(kernels::CpuPath::kPortable));
  }
  return std::string(kernels::cpu_path_name(lowest));
}

}  // namespace

std::optional<Error> Leader::mismatch(const wire::Join& join) const {
  const wire::Join& self = options_.self;
  const auto differs = [&](std::string_view what, const auto& theirs, const auto& ours) -> std::optional<Error> {
    if (theirs == ours) return std::nullopt;
    return Error{Errc::kProtocol, fmt::format("rank {} has {} {}, its leader has {}", join.rank, what, theirs, ours),
                 std::string(what)};
  };
  if (auto error = differs("protocol", join.protocol, self.protocol)) return error;
  if (auto error = differs("version", join.version, self.version)) return error;
  if (auto error = differs("world size", join.world, self.world)) return error;
  if (auto error = differs("--weights", layout(join), layout(self))) return error;
  if (auto error = differs("dtype", join.dtype, self.dtype)) return error;
  return differs("model fingerprint", join.fingerprint, self.fingerprint);
}

void Leader::on_join(uint32_t rank, wire::Join join) {
  if (const auto error = mismatch(join)) {
    turn_away(rank, error->message);
    return;
  }
  const Rank& known = ranks_[rank];
  if (known.join && state_ != wire::GroupState::kWaiting) {
    if (known.join->incarnation != join.incarnation) {
      give_up(fmt::format("rank {} was restarted", rank));
    } else if (known.ready) {
      // Messages of a rank come in order, so this one was said after Ready: the rank has left meanwhile.
      give_up(fmt::format("rank {} has left the group", rank));
    } else {
      return;  // said again before it heard Form
    }
  }
  if (!ranks_[rank].join) log_info("rank {} has joined (pid {}, {})", rank, join.pid, join.path);
  ranks_[rank].join = std::move(join);
  form_if_complete();
}

void Leader::turn_away(uint32_t rank, const std::string& why) {
  log_error("{}: it is turned away", why);
  to_ranks_.push_back({rank, wire::Failed{0, 0, Error{Errc::kProtocol, why, ""}}});
}

void Leader::form_if_complete() {
  if (state_ != wire::GroupState::kWaiting || clock_.now_ns() < form_after_ns_) return;
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.join.has_value(); })) form();
}

void Leader::form() {
  epoch_ = options_.new_epoch();
  ++stats_.epochs;
  std::vector<std::string> paths;
  for (const Rank& rank : ranks_)
    paths.push_back(rank.join->path);
  form_ = {};
  form_.epoch = epoch_;
  form_.world = options_.world;
  form_.shares = options_.shares;
  form_.path = lowest_path(paths);
  form_.codec = options_.codec;
  form_.plan = options_.plan;
  form_.bootstrap =
      collectives::Bootstrap{options_.transport, fmt::format("{}-{:016x}", options_.group, epoch_), options_.address}
          .to_text();
  tell_all_ranks(form_);
  tell_all_ranks(wire::Load{epoch_, options_.slots});
  set_state(wire::GroupState::kLoading,
            lost_by_.empty() ? "loading the model" : fmt::format("loading the model again, after: {}", lost_by_));
}

void Leader::on_ready(uint32_t rank, wire::Ready ready) {
  if (state_ != wire::GroupState::kLoading || ready.epoch != epoch_) return;
  ranks_[rank].ready = std::move(ready);
  if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.ready.has_value(); })) return;
  for (const Rank& other : ranks_) {
    if (other.ready->numerics_id != ranks_[0].ready->numerics_id) {
      give_up(fmt::format("ranks do not compute alike: '{}' and '{}'", ranks_[0].ready->numerics_id,
                          other.ready->numerics_id));
      return;
    }
  }
  serve();
}

void Leader::serve() {
  scheduler::SchedulerOptions options;
  options.model = options_.model;
  options.numerics_id = ranks_[0].ready->numerics_id;
  options.vocab_size = options_.vocab_size;
  options.slots = limits::kMaxSlots;
  options.kv_pages = ranks_[0].ready->kv_pages;
  options.max_step_rows = limits::kMaxStepRows;
  for (const Rank& rank : ranks_) {
    options.slots = std::min(options.slots, rank.ready->slots);
    options.kv_pages = std::min(options.kv_pages, rank.ready->kv_pages);
    options.max_step_rows = std::min<int64_t>(options.max_step_rows, rank.ready->max_rows);
  }
  const int64_t most_slots = options.max_step_rows - scheduler::StepCost::kMinPrefillRows;
  if (most_slots < 1 || options.slots < 1) {
    give_up(fmt::format("{} slots and steps of {} rows are too few", options.slots, options.max_step_rows));
    return;
  }
  options.slots = std::min(options.slots, static_cast<uint32_t>(most_slots));
  options.max_queue = options_.max_queue;
  options.max_step_ms = options_.max_step_ms;
  if (options_.whole_weights) {
    options.homes.world = static_cast<int>(options_.world);
    // Keys and values stay where they were computed.
    const uint32_t most = options.kv_pages > 0 ? 1 : options_.world;
    options.prompt_ranks = options_.prompt_ranks == 0 ? most : std::min(most, options_.prompt_ranks);
  }
  scheduler_ = std::make_unique<scheduler::Scheduler>(options, clock_);
  log_info("group {} serves: {} ranks, {} slots, {}", options_.group, options_.world, options.slots,
           options.numerics_id);
  lost_by_.clear();
  set_state(wire::GroupState::kServing, "");
}

}  // namespace krait::shard
