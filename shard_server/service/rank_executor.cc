#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "shard_server/service/rank_worker.h"

namespace krait::shard {

bool RankExecutor::post(wire::Message command) {
  if (std::holds_alternative<wire::Leave>(command)) {
    commands_.clear();
    leaving_ = true;
  }
  if (std::cmp_greater_equal(commands_.size(), limits::kMaxRankCommands)) return false;
  commands_.push_back(std::move(command));
  return true;
}

std::optional<wire::Message> RankExecutor::take() {
  if (commands_.empty() || stopped_) return std::nullopt;
  wire::Message command = std::move(commands_.front());
  commands_.pop_front();
  if (std::holds_alternative<wire::Leave>(command)) leaving_ = false;
  return command;
}

void RankExecutor::stop() {
  stopped_ = true;
  leaving_ = true;
}

std::optional<wire::Message> RankExecutor::execute(const wire::Message& command) {
  if (const auto* form = std::get_if<wire::Form>(&command)) return run(*form);
  if (const auto* load = std::get_if<wire::Load>(&command)) return run(*load);
  if (const auto* step = std::get_if<wire::Step>(&command)) return run(*step);
  if (std::holds_alternative<wire::Leave>(command)) {
    drop();
    return std::nullopt;
  }
  log_warning("a command that ranks do not know was dropped");
  return std::nullopt;
}

std::optional<wire::Message> RankExecutor::run(const wire::Form& form) {
  drop();
  const auto formed = model_->form(form, leaving_);
  if (formed.ok()) {
    epoch_ = form.epoch;
    return std::nullopt;
  }
  log_error("rank {} cannot reach its peers: {}", rank_, to_string(formed.error()));
  drop();
  return wire::Failed{form.epoch, rank_, formed.error()};
}

std::optional<wire::Message> RankExecutor::run(const wire::Load& load) {
  if (epoch_ != load.epoch) return std::nullopt;
  auto ready = model_->load(load);
  loaded_ = ready.ok();
  if (loaded_) return *std::move(ready);
  log_error("rank {} cannot load: {}", rank_, to_string(ready.error()));
  drop();
  return wire::Failed{load.epoch, rank_, ready.error()};
}

std::optional<wire::Message> RankExecutor::run(const wire::Step& step) {
  if (epoch_ != step.epoch || !loaded_) return std::nullopt;
  auto done = model_->step(step);
  if (done.ok()) return *std::move(done);
  const Error error = done.error();
  log_error("rank {} failed in step {}: {}", rank_, step.step, to_string(error));
  // Peers wait for this rank's part of the next collective: tell them at once.
  model_->abort(to_string(error));
  drop();
  return wire::Failed{step.epoch, rank_, error};
}

void RankExecutor::drop() {
  epoch_.reset();
  loaded_ = false;
  model_->drop();
}

}  // namespace krait::shard
