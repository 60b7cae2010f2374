#include "shard_server/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "common/base/limits.h"
#include "common/base/units.h"
#include "shard_server/collectives/codec.h"

namespace krait::shard {
namespace {

constexpr int64_t kBufferMemoryBytes = 24 * kMiB;  // for rows of a step, where max_rows is not given
constexpr uint32_t kLeastRows = 64;
constexpr int kNumericsVersion = 3;           // raised when a kernel changes bits
constexpr std::string_view kExact = "exact";  // SumCodecs::name() where nothing is rounded

/// What all blocks together need for that many rows.
BlockNeeds needs_of(const std::vector<std::unique_ptr<Block>>& blocks, const LmHead& head, int64_t max_rows) {
  BlockNeeds all = head.needs();
  for (const auto& block : blocks) {
    const BlockNeeds needs = block->needs(max_rows);
    all.scratch_bytes = std::max(all.scratch_bytes, needs.scratch_bytes);
    all.gemm_workspace_bytes = std::max(all.gemm_workspace_bytes, needs.gemm_workspace_bytes);
    all.sum_width = std::max(all.sum_width, needs.sum_width);
    all.side_rows = all.side_rows || needs.side_rows;
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(std::shared_ptr<const Checkpoint> checkpoint,
                                             const EngineOptions& options) try {
  RETURN_IF_ERROR(checkpoint->check_unchanged());  // before work that would be for nothing
  std::unique_ptr<Engine> engine(new Engine);
  engine->checkpoint_ = std::move(checkpoint);
  engine->partition_ = options.partition;
  engine->dtype_ = options.dtype;
  engine->codecs_ = options.codecs;
  engine->rank_ = options.rank;
  engine->homes_ = options.homes;
  engine->overlap_rows_ = options.overlap_rows;
  engine->stream_ = std::make_unique<kernels::Stream>(options.stream);
  WeightLoader loader(*engine->checkpoint_, engine->partition_, options.rank, options.dtype, engine->weights_,
                      *engine->stream_);
  for (const BlockPlan& block_plan : engine->checkpoint_->plan().blocks) {
    const BlockSource source{engine->config(), block_plan, *engine->checkpoint_, loader, engine->states_, engine->kv_};
    if (block_plan.kind == BlockKind::kLmHead) {
      ASSIGN_OR_RETURN(engine->head_, LmHead::make(source));
    } else {
      const int64_t first = engine->states_.slot_stride();
      ASSIGN_OR_RETURN(auto block, make_block(source));
      engine->blocks_.push_back(std::move(block));
      engine->block_states_.push_back({first, engine->states_.slot_stride() - first});
    }
  }
  CHECK(engine->head_ != nullptr);
  RETURN_IF_ERROR(loader.count_unread(engine->checkpoint_->plan()));
  RETURN_IF_ERROR(engine->checkpoint_->check_unchanged());
  engine->nonfinite_weights_ = loader.log_nonfinite();
  RETURN_IF_ERROR(engine->allocate(options));
  return engine;
} catch (const std::bad_alloc&) {
  return Error{Errc::kResourceExhausted, "there is not enough memory to load the model", ""};
}

Status Engine::allocate(const EngineOptions& options) {
  const int64_t slot_bytes = std::max<int64_t>(states_.slot_bytes(), 1);
  // A hybrid's sequences need both: half the memory for slots, unless they need less, and the rest for pages.
  const bool hybrid = !config().shared.layers.empty();
  const int64_t slot_memory = hybrid ? options.state_memory_bytes / 2 : options.state_memory_bytes;
  const int64_t by_memory = std::clamp<int64_t>(slot_memory / slot_bytes, 1, limits::kDefaultMaxSlots);
  const uint32_t slots = options.slots != 0 ? options.slots : static_cast<uint32_t>(by_memory);
  if (slots > static_cast<uint32_t>(limits::kMaxSlots)) {
    return Error{Errc::kInvalidArgument, fmt::format("at most {} slots are possible", limits::kMaxSlots), "slots"};
  }
  RETURN_IF_ERROR(states_.allocate(slots));
  if (hybrid) {
    const int64_t left = options.state_memory_bytes - slots * slot_bytes;
    // A rank without heads of its own holds any number of pages.
    const int64_t by_rest = kv_.page_bytes() == 0 ? limits::kMaxKvPages : left / kv_.page_bytes();
    const int64_t pages = options.kv_pages != 0 ? options.kv_pages : std::min(by_rest, limits::kMaxKvPages);
    if (options.kv_pages == 0 && pages < limits::kLeastKvTokens / limits::kKvPageTokens) {
      return Error{
          Errc::kResourceExhausted,
          fmt::format("{} slots of {} KiB leave {} MiB for keys and values: room for {} tokens, and {} are the "
                      "least (fewer --slots, or more memory)",
                      slots, slot_bytes / kKiB, std::max<int64_t>(left, 0) / kMiB,
                      std::max<int64_t>(pages, 0) * limits::kKvPageTokens, limits::kLeastKvTokens),
          "slots"};
    }
    RETURN_IF_ERROR(kv_.allocate(pages));
  }
  records_.resize(slots);

  const BlockNeeds for_one = needs_of(blocks_, *head_, 1);
  const int64_t row_bytes = config().hidden_size * (for_one.side_rows ? 12 : 4) + for_one.sum_width * 4 +
                            for_one.scratch_bytes + for_one.gemm_workspace_bytes;
  max_rows_ = options.max_rows;
  if (max_rows_ == 0) {
    // Every slot may have a decode row, and prompts must move on beside them.
    max_rows_ = std::max({static_cast<uint32_t>(kBufferMemoryBytes / row_bytes), slots + kLeastRows / 2, kLeastRows});
    max_rows_ = std::min(max_rows_, static_cast<uint32_t>(limits::kMaxStepRows));
  }
  const BlockNeeds needs = needs_of(blocks_, *head_, max_rows_);
  const int64_t h_rows = std::max<int64_t>(max_rows_, homes_.world > 1 ? limits::kSharedPromptRows : 0);
  ASSIGN_OR_RETURN(std::byte * h, buffers_.allocate(h_rows * config().hidden_size * 4));
  h_ = reinterpret_cast<float*>(h);
  sum_width_ = needs.sum_width;
  ASSIGN_OR_RETURN(std::byte * sum, buffers_.allocate(max_rows_ * sum_width_ * 4));
  sum_ = reinterpret_cast<float*>(sum);
  if (needs.side_rows) {
    ASSIGN_OR_RETURN(std::byte * rows, buffers_.allocate(2 * max_rows_ * config().hidden_size * 4));
    first_ = reinterpret_cast<float*>(rows);
    side_ = first_ + max_rows_ * config().hidden_size;
  }
  ASSIGN_OR_RETURN(std::byte * scratch, buffers_.allocate(needs.scratch_bytes));
  scratch_ = {scratch, static_cast<size_t>(needs.scratch_bytes)};
  ASSIGN_OR_RETURN(std::byte * workspace, buffers_.allocate(needs.gemm_workspace_bytes));
  gemm_workspace_ = {workspace, static_cast<size_t>(needs.gemm_workspace_bytes)};
  const int64_t sampler_bytes = Sampler::memory_bytes(*head_);
  ASSIGN_OR_RETURN(std::byte * sampler, buffers_.allocate(sampler_bytes));
  sampler_ =
      std::make_unique<Sampler>(*head_, stream_->threads(), std::span(sampler, static_cast<size_t>(sampler_bytes)));
  ids_.reserve(static_cast<size_t>(h_rows));
  return {};
}

void Engine::export_state(int32_t slot, int64_t tokens, WholeState& whole) const {
  const SlotState state{
      .state = states_.slot(slot), .kv = kv_, .pages = records_[static_cast<size_t>(slot)].pages(), .tokens = tokens};
  for (const auto& block : blocks_)
    block->export_state(state, whole);
}

std::string Engine::collective_plan() const {
  return partition_.world > 1 ? codecs_.name() : std::string(kExact);
}

std::string Engine::numerics_id() const {
  std::string partition = "aligned";
  if (!partition_.aligned) {
    Digest digest;
    for (const auto& ranges : partition_.ranges)
      digest.update(std::as_bytes(std::span(ranges)));
    partition = fmt::format("{}-{:08x}", partition_.world, static_cast<uint32_t>(digest.value()));
  }
  // Rounded parts make the number of ranks count; one rank rounds none.
  if (const std::string plan = collective_plan(); plan != kExact)
    partition += fmt::format("-{}x{}", plan, partition_.world);
  return fmt::format("cpu-{}-{}-{}-v{}-{}-{}", kernels::cpu_path_name(stream_->path()),
                     kernels::gemm_arithmetic(stream_->path(), dtype_), weight_type_name(dtype_), kNumericsVersion,
                     partition, checkpoint_->fingerprint().substr(0, 12));
}

/// Ranks hold the same residual stream: the last row of each run stands for the rows before it, which its states carry.
void Engine::digest_rows(Digest& digest) const {
  for (const auto& run : runs_) {
    const float* row = h_ + (run.row_begin + run.rows - 1) * config().hidden_size;
    digest.update(std::as_bytes(std::span(row, static_cast<size_t>(config().hidden_size))));
  }
}

BlockContext Engine::context(collectives::GroupCommunicators& communicators, int64_t first_row, PendingSum& sum) {
  const auto from = [&](float* rows, int64_t width) { return rows == nullptr ? nullptr : rows + first_row * width; };
  const int64_t hidden = config().hidden_size;
  return {.stream = *stream_,
          .communicator = communicators.group(),
          .small_communicator = communicators.small(),
          .sub_communicator = communicators.sub(),
          .states = states_,
          .kv = kv_,
          .h = from(h_, hidden),
          .first = from(first_, hidden),
          .side = from(side_, hidden),
          .sum = sum,
          .sums_are_moving = parts_.all().size() > 1,
          .scratch = scratch_,
          .gemm_workspace = gemm_workspace_};
}

Status Engine::run_blocks(const Batch& batch, collectives::GroupCommunicators& communicators) {
  if (overlap_rows_ > 0 && batch.rows() >= overlap_rows_ && !block_tap_) {
    parts_.halve(batch);
  } else {
    parts_.keep_whole(batch);
  }
  std::array<PendingSum, BatchParts::kMost> sums;
  for (size_t part = 0; part < parts_.all().size(); ++part)
    sums[part].rows = sum_ + parts_.all()[part].first_row * sum_width_;
  const int64_t sum_floats = batch.rows() * config().hidden_size;
  for (size_t b = 0; b <= blocks_.size(); ++b) {
    for (size_t part = 0; part < parts_.all().size(); ++part) {
      const BatchPart& rows = parts_.all()[part];
      BlockContext here = context(communicators, rows.first_row, sums[part]);
      if (b > 0) {
        RETURN_IF_ERROR(blocks_[b - 1]->complete(here, rows.batch));
        tap_block(b - 1, sum_floats);
      }
      if (b == blocks_.size()) continue;
      here.codec = codecs_.of(b, sum_floats * static_cast<int64_t>(sizeof(float)));
      RETURN_IF_ERROR(blocks_[b]->start(here, rows.batch));
    }
  }
  return {};
}

void Engine::tap_block(size_t block, int64_t floats) const {
  if (!block_tap_) return;
  const auto count = static_cast<size_t>(floats);
  block_tap_(block, std::span(h_, count), std::span(side_, side_ != nullptr ? count : 0));
}

Result<wire::StepDone> Engine::step(const wire::Step& step, collectives::GroupCommunicators& communicators,
                                    const Clock& clock) {
  RETURN_IF_ERROR(validate(step));
  const int64_t start_ns = clock.now_ns();
  const auto before = communicators.statistics();
  lay_out(step);
  if (step.runs[0].ranks > 1) {
    RETURN_IF_ERROR(run_shared(step.runs[0], communicators));
  } else if (!ids_.empty()) {
    RETURN_IF_ERROR(run_blocks({ids_, runs_, taps_, attention_}, communicators));
  }

  wire::StepDone done;
  done.epoch = step.epoch;
  done.step = step.step;
  done.rank = static_cast<uint32_t>(homes_.world > 1 ? homes_.rank : rank_);
  Digest digest;
  digest.update(std::as_bytes(std::span(&step.step, 1)));
  digest_rows(digest);
  const int64_t sample_ns = clock.now_ns();
  choose_logit_rows(step, done);
  PendingSum none;
  RETURN_IF_ERROR(sampler_->run(context(communicators, 0, none), logit_rows_, digest));
  for (auto& scores : done.prompt_logprobs) {
    scores.failed = !std::all_of(scores.entries.begin(), scores.entries.end(),
                                 [](const wire::TokenInfo& entry) { return std::isfinite(entry.logprob); });
  }
  // Ranks that hold the whole model compute different rows: there is nothing to compare.
  done.digest = homes_.world > 1 ? step.step : digest.value();

  const int64_t end_ns = clock.now_ns();
  const auto after = communicators.statistics();
  for (size_t op = 0; op < after.size(); ++op) {
    done.timings.collective_us += (after[op].time_ns - before[op].time_ns) / kUs;
    done.timings.wait_us += (after[op].wait_ns - before[op].wait_ns) / kUs;
  }
  done.timings.total_us = (end_ns - start_ns) / kUs;
  done.timings.sample_us = (end_ns - sample_ns) / kUs;
  if (rank_ != 0) {  // it says what rank 0 says
    done.samples.clear();
    done.prompt_logprobs.clear();
  }
  return done;
}

}  // namespace krait::shard
