#include "deploy/tools/roofline.h"

#include <algorithm>

#include "common/base/check.h"
#include "shard_server/weights/weight_loader.h"

namespace krait::tools {
namespace {

constexpr double kFloatBytes = sizeof(float);

double elements(const Shape& shape) {
  return static_cast<double>(StoredTensor{.shape = shape}.elements());
}

Work work_of(const BlockPlan& block, const Partition& partition, DType dtype) {
  Work work;
  for (const TensorSpec& spec : block.tensors) {
    for (int rank = 0; rank < partition.world; ++rank) {
      work.bytes += static_cast<double>(shard::kept_bytes(spec, partition, rank, dtype));
      if (spec.packing != Packing::kNone) work.operations += 2 * elements(local_shape(spec, partition, rank));
    }
  }
  return work;
}

}  // namespace

Roofline::Roofline(const ModelPlan& plan, int ranks, DType dtype) {
  const auto made = make_partition(plan.config, ranks);
  CHECK(made.ok());  // the group runs with it
  for (const BlockPlan& block : plan.blocks) {
    if (block.kind == BlockKind::kEmbedding) continue;
    Work& sum = block.kind == BlockKind::kLmHead ? head_ : layers_;
    sum = sum + work_of(block, *made, dtype);
  }
  const MixerConfig& mixer = plan.config.mixer;
  const bool heads_share = plan.config.unit(Unit::kHead).count > 0;  // Mamba-2: B and C are convolved too
  const double convolved = static_cast<double>(mixer.inner_size) +
                           (heads_share ? 2.0 * static_cast<double>(mixer.groups * mixer.state_size) : 0);
  state_bytes_ = static_cast<double>(plan.config.layers) * kFloatBytes *
                 (convolved * static_cast<double>(mixer.conv_kernel - 1) +
                  static_cast<double>(mixer.inner_size * mixer.state_size));
  const SharedTransformerConfig& shared = plan.config.shared;
  kv_bytes_ = static_cast<double>(static_cast<int64_t>(shared.layers.size()) * shared.kv_heads * shared.head_dim * 2) *
              kFloatBytes;
}

Work Roofline::of(const StepRecord& step) const {
  const auto rows = static_cast<double>(step.decode_rows + step.prefill_rows);
  Work work{layers_.bytes, layers_.operations * rows};
  if (step.sampled_rows > 0) work = work + Work{head_.bytes, head_.operations * static_cast<double>(step.sampled_rows)};
  work.bytes += 2 * state_bytes_ * static_cast<double>(step.runs) + kv_bytes_ * static_cast<double>(step.read_tokens);
  return work;
}

double Roofline::seconds(const Work& work, const Peaks& peaks) {
  const double reading = work.bytes / peaks.read_gbytes * 1e-9;
  return peaks.gops > 0 ? std::max(reading, work.operations / peaks.gops * 1e-9) : reading;
}

}  // namespace krait::tools
