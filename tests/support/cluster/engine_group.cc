#include "tests/support/cluster/engine_group.h"

#include <stdexcept>
#include <thread>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "kernels/scan/selective_scan.h"
#include "shard_server/collectives/loopback.h"

namespace krait::test {
namespace {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(to_string(result.error()));
  return std::move(result).value();
}

/// work(rank) on a thread each; the first exception is thrown again here.
void on_all_ranks(int world, const std::function<void(int rank)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads)
    thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

EngineGroup::EngineGroup(const EngineGroupOptions& options) : slot_pages_(options.slot_pages) {
  auto checkpoint = value_or_throw(Checkpoint::open(options.model_dir));
  const bool whole = options.whole_weights;
  if (whole) homes_.world = options.world;
  const auto partition =
      value_or_throw(make_partition(checkpoint->config(), whole ? 1 : options.world, options.shares));
  engines_.resize(static_cast<size_t>(options.world));
  communicators_.resize(static_cast<size_t>(options.world));
  const auto hub = collectives::make_loopback_hub();
  on_all_ranks(options.world, [&](int rank) {
    shard::EngineOptions engine;
    engine.rank = whole ? 0 : rank;
    if (whole) engine.homes = {rank, options.world};
    engine.partition = partition;
    engine.dtype = options.dtype;
    engine.codecs = options.codecs;
    engine.slots = options.slots;
    engine.max_rows = options.max_rows;
    engine.overlap_rows = options.overlap_rows;
    engine.kv_pages = options.slots * options.slot_pages;
    engine.stream.threads = options.threads;
    engine.stream.path = options.path;
    engine.stream.may_spin = false;
    engines_[static_cast<size_t>(rank)] = value_or_throw(shard::Engine::load(checkpoint, engine));
    collectives::Options communicator;
    communicator.name = "test";
    communicator.epoch = 1;
    communicator.rank = rank;
    communicator.world = options.world;
    communicator.order = partition.aligned ? collectives::ReduceOrder::kTree : collectives::ReduceOrder::kRankOrder;
    communicator.max_rows = 8;
    communicator.max_width = checkpoint->config().hidden_size;
    communicator.hub = hub;
    std::optional<collectives::SubGroupRanks> sub;
    if (const auto found = sub_group(checkpoint->config(), partition, engine.rank))
      sub = {.first = found->first, .world = found->world, .index = found->index};
    auto& formed = communicators_[static_cast<size_t>(rank)];
    using collectives::GroupCommunicators;
    const auto factory = collectives::make_loopback_communicator;
    formed = value_or_throw(whole ? GroupCommunicators::form_alone(factory, communicator)
                                  : GroupCommunicators::form(factory, communicator, sub));
  });
}

EngineGroup::~EngineGroup() = default;

void EngineGroup::keep_logits() {
  for (auto& engine : engines_) {
    const bool first = homes_.world > 1 || engine == engines_.front();
    engine->set_logit_tap([this, first](int32_t row, std::span<const float> logits) {
      if (first) logits_[row].assign(logits.begin(), logits.end());
    });
  }
}

wire::StepDone EngineGroup::step(wire::Step step) {
  step.step = next_step_++;
  step.epoch = 1;
  logits_.clear();
  std::vector<wire::StepDone> dones(engines_.size());
  on_all_ranks(static_cast<int>(engines_.size()), [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    communicators_[r]->set_deadline_ns(clock_.now_ns() + 60 * kSecond);
    dones[r] = value_or_throw(engines_[r]->step(step, *communicators_[r], clock_));
  });
  for (const auto& done : dones) {
    if (done.digest != dones[0].digest) throw std::runtime_error(fmt::format("rank {} disagrees", done.rank));
  }
  // Ranks with whole weights tell of their own sequences; the caller's order is that of the runs.
  wire::StepDone all = dones[0];
  if (homes_.world == 1) return all;
  all.samples.clear();
  for (const auto& run : step.runs) {
    const auto& at_home = dones[static_cast<size_t>(homes_.of(run.sequence_slot))].samples;
    std::copy_if(at_home.begin(), at_home.end(), std::back_inserter(all.samples),
                 [&](const auto& sample) { return sample.slot == run.sequence_slot; });
  }
  return all;
}

shard::WholeState whole_state(std::span<const shard::Engine* const> engines, int32_t slot, int64_t tokens) {
  shard::WholeState whole;
  for (const shard::Engine* engine : engines)
    engine->export_state(slot, tokens, whole);
  return whole;
}

std::vector<int32_t> EngineGroup::pages(int32_t slot) const {
  std::vector<int32_t> pages;
  const auto slots = static_cast<int32_t>(engines_[0]->slots());
  // Neighbouring pages belong to different slots, and later ones come first.
  for (auto i = static_cast<int32_t>(slot_pages_) - 1; i >= 0 && engines_[0]->kv_pages() > 0; --i)
    pages.push_back(i * slots + slot);
  return pages;
}

shard::WholeState EngineGroup::state(int32_t slot, int64_t tokens) const {
  std::vector<const shard::Engine*> engines;
  for (const auto& engine : engines_) {
    if (homes_.world == 1 || engine == engines_[static_cast<size_t>(homes_.of(slot))]) engines.push_back(engine.get());
  }
  return whole_state(engines, slot, tokens);
}

wire::SamplingParams scored_greedily() {
  wire::SamplingParams sampling;
  sampling.temperature = 0;
  sampling.prompt_logprobs = true;
  sampling.logprobs = 0;
  return sampling;
}

SequenceResult run_sequence(EngineGroup& group, int32_t slot, const std::vector<int32_t>& prompt, int64_t chunk,
                            uint32_t generate, const wire::SamplingParams& sampling, uint32_t ranks) {
  SequenceResult result;
  const auto total = static_cast<int64_t>(prompt.size());
  for (int64_t begin = 0; begin < total; begin += chunk) {
    const int64_t end = std::min(total, begin + chunk);
    wire::Step step;
    if (begin == 0) step.admissions.push_back({slot, static_cast<uint32_t>(total), sampling, group.pages(slot)});
    auto& run = step.runs.emplace_back();
    run.in_slot = begin == 0 ? -1 : slot;
    run.out_slot = run.sequence_slot = slot;
    run.position = static_cast<uint32_t>(begin);
    run.tokens.assign(prompt.begin() + begin, prompt.begin() + end);
    run.sample = end == total;
    run.prompt_logprobs = sampling.prompt_logprobs;
    run.ranks = ranks;
    run.next_token = end < total ? prompt[static_cast<size_t>(end)] : -1;
    const auto done = group.step(step);
    for (const auto& [row, logits] : group.logits())
      result.prompt_logits.push_back(logits);
    if (run.sample) result.tokens.push_back(done.samples.at(0).token.token);
  }
  result.after_prompt = group.state(slot, total);
  for (uint32_t i = 1; i < generate; ++i) {
    wire::Step step;
    auto& run = step.runs.emplace_back();
    run.in_slot = run.out_slot = run.sequence_slot = slot;
    run.position = static_cast<uint32_t>(total) + i - 1;
    run.sample = true;
    const auto done = group.step(step);
    for (const auto& [row, logits] : group.logits())
      result.decode_logits.push_back(logits);
    result.tokens.push_back(done.samples.at(0).token.token);
  }
  return result;
}

}  // namespace krait::test
