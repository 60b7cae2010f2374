#include "deploy/tools/bench_server.h"

#include <utility>

#include "common/base/units.h"

namespace krait::tools {
namespace {

constexpr const char* kPeer = "bench";

scheduler::SchedulerOptions scheduler_options(const LocalGroup& group, double max_step_ms) {
  scheduler::SchedulerOptions options;
  options.vocab_size = group.checkpoint().config().vocab_size;
  options.slots = group.ready().slots;
  options.kv_pages = group.ready().kv_pages;
  options.max_step_rows = group.ready().max_rows;
  options.max_step_ms = max_step_ms;
  options.homes = group.homes();
  options.prompt_ranks = group.prompt_ranks();
  return options;
}

StepRecord record_of(const wire::Step& step) {
  StepRecord record;
  for (const wire::StepRun& run : step.runs) {
    const auto rows = static_cast<int64_t>(run.tokens.size());
    record.prefill_rows += rows;
    record.decode_rows += rows == 0 ? 1 : 0;
    record.sampled_rows += run.sample ? 1 : 0;
    record.read_tokens += run.position + std::max<int64_t>(rows, 1);
    ++record.runs;
  }
  return record;
}

}  // namespace

BenchServer::BenchServer(LocalGroup& group, double max_step_ms, const Clock& clock)
    : group_(group),
      clock_(clock),
      scheduler_(scheduler_options(group, max_step_ms), clock),
      times_(static_cast<size_t>(group.ranks())),
      statistics_(static_cast<size_t>(group.ranks())) {}

Result<uint64_t> BenchServer::submit(std::vector<int32_t> tokens, uint32_t max_tokens) {
  wire::Submit submit;
  submit.request = next_request_++;
  submit.tokens = std::move(tokens);
  submit.max_tokens = max_tokens;
  submit.sampling.temperature = 0;
  const uint64_t request = submit.request;
  scheduler_.submit(kPeer, std::move(submit));
  RETURN_IF_ERROR(take_messages());
  return request;
}

void BenchServer::cancel(uint64_t request) {
  scheduler_.cancel(kPeer, {.request = request});
}

Status BenchServer::take_messages() {
  for (const auto& out : scheduler_.take_outgoing()) {
    if (const auto* rejected = std::get_if<wire::Rejected>(&out.message)) return rejected->error;
    const auto* finished = std::get_if<wire::Finished>(&out.message);
    if (finished == nullptr || finished->reason == wire::FinishReason::kCancelled) continue;
    if (finished->reason == wire::FinishReason::kError) return finished->error;
    ended_.push_back({finished->request, static_cast<double>(finished->queue_us + finished->prefill_us) / 1e3});
  }
  return {};
}

std::vector<SequenceTimes> BenchServer::take_ended() {
  return std::exchange(ended_, {});
}

Result<std::optional<StepRecord>> BenchServer::turn() {
  // A profile is of one step: the next one begins when it has been read.
  while (!profiling_ || in_flight_.empty()) {
    auto step = scheduler_.plan();
    if (!step) break;
    in_flight_.push_back(record_of(*step));
    group_.post(*std::move(step));
  }
  if (in_flight_.empty()) return std::optional<StepRecord>();
  ASSIGN_OR_RETURN(const auto answers, group_.wait());
  StepRecord record = in_flight_.front();
  in_flight_.pop_front();
  record.done_ns = clock_.now_ns();
  if (profiling_) record.profile = profile_of(answers);
  RETURN_IF_ERROR(scheduler_.step_done(scheduler_.merge(answers)));
  RETURN_IF_ERROR(take_messages());
  return std::optional<StepRecord>(record);
}

Status BenchServer::finish() {
  while (true) {
    ASSIGN_OR_RETURN(const auto record, turn());
    if (!record) return {};
  }
}

void BenchServer::set_profiling(bool on) {
  profiling_ = on;
  for (int rank = 0; rank < group_.ranks(); ++rank) {
    const auto index = static_cast<size_t>(rank);
    times_[index] = {};
    statistics_[index] = group_.collectives(rank);
    group_.engine(rank).time_kernels(on ? &times_[index] : nullptr);
  }
}

StepProfile BenchServer::profile_of(const std::vector<wire::StepDone>& answers) {
  StepProfile profile;
  const double share = 1.0 / static_cast<double>(answers.size());
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    profile.total_ns += static_cast<double>(answers[rank].timings.total_us * kUs) * share;
    for (size_t kind = 0; kind < kernels::kKernelKinds; ++kind)
      profile.kernel_ns[kind] += static_cast<double>(times_[rank].ns[kind]) * share;
    times_[rank] = {};
    const auto now = group_.collectives(static_cast<int>(rank));
    const auto before = std::exchange(statistics_[rank], now);
    for (size_t op = 0; op < now.size(); ++op) {
      const auto wait = static_cast<double>(now[op].wait_ns - before[op].wait_ns);
      profile.wait_ns[op] += wait * share;
      profile.sent_bytes += static_cast<double>(now[op].contributed_bytes - before[op].contributed_bytes) * share;
      profile.collective_ns[op] += (static_cast<double>(now[op].time_ns - before[op].time_ns) - wait) * share;
    }
  }
  return profile;
}

}  // namespace krait::tools
