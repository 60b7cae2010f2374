#include "tests/simulation/simulated_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::simulation {

SimulatedRunner::SimulatedRunner(RankShape shape, uint64_t seed, EventQueue& events, Meetings& meetings,
                                 std::function<void(const wire::Message&)> on_post,
                                 std::function<void(wire::Message)> answer)
    : random_(seed), events_(events), on_post_(std::move(on_post)), answer_(std::move(answer)) {
  auto rank = std::make_unique<SimulatedRank>(shape, meetings, [this] { later(0, [this] { advance(); }); });
  rank_ = rank.get();
  executor_ = std::make_unique<shard::RankExecutor>(shape.rank, std::move(rank));
}

void SimulatedRunner::later(int64_t delay_ns, std::function<void()> work) {
  events_.after(delay_ns, [alive = std::weak_ptr(alive_), work = std::move(work)] {
    if (!alive.expired()) work();
  });
}

bool SimulatedRunner::post(wire::Message command) {
  on_post_(command);
  if (std::holds_alternative<wire::Leave>(command)) leave_waits_ = true;
  if (!executor_->post(std::move(command))) return false;
  later(0, [this] { advance(); });
  return true;
}

void SimulatedRunner::set_paused(bool paused) {
  paused_ = paused;
  if (paused_) return;
  if (std::exchange(overdue_, false)) complete();
  advance();
}

void SimulatedRunner::advance() {
  if (paused_ || settling_) return;
  if (!current_) begin();
  if (!current_) return;
  const bool given_up = leave_waits_ && std::holds_alternative<wire::Form>(*current_);
  if (!given_up && !rank_->settled(*current_)) return;
  settling_ = true;
  later(duration_ns(*current_), [this] {
    if (paused_) {
      overdue_ = true;
    } else {
      complete();
    }
  });
}

void SimulatedRunner::begin() {
  current_ = executor_->take();
  if (!current_) return;
  if (std::holds_alternative<wire::Leave>(*current_)) leave_waits_ = false;
  const uint64_t number = ++begun_;
  int64_t patience_ns = limits::kCollectiveTimeoutNs;
  if (const auto* step = std::get_if<wire::Step>(&*current_)) patience_ns = step->deadline_ms * kMs;
  later(patience_ns, [this, number] {
    if (current_ && begun_ == number && !settling_) rank_->expire();
  });
  rank_->begin(*current_);
}

int64_t SimulatedRunner::duration_ns(const wire::Message& command) {
  if (std::holds_alternative<wire::Load>(command)) return static_cast<int64_t>(20 + random_.below(300)) * kMs;
  const auto* step = std::get_if<wire::Step>(&command);
  if (step == nullptr) return 50 * kUs;
  int64_t rows = 0;
  for (const auto& run : step->runs)
    rows += run.rows();
  const int64_t step_us = 4000 + rows * 400 + static_cast<int64_t>(random_.below(1000));
  rank_->set_step_us(step_us);
  return step_us * kUs;
}

void SimulatedRunner::complete() {
  const auto command = std::exchange(current_, std::nullopt);
  settling_ = false;
  if (auto answer = executor_->execute(*command)) answer_(*std::move(answer));
  advance();
}

}  // namespace krait::simulation
