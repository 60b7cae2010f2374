// config.json, then a zero byte and generation_config.json where there is one: through to the plan of the model and to
// its partitions, where sizes are multiplied.
#include <algorithm>
#include <optional>

#include "common/base/limits.h"
#include "common/model/model_config.h"
#include "common/model/model_plan.h"
#include "common/model/partition.h"
#include "tests/fuzz/harness.h"

namespace krait {
namespace {

int64_t elements_of(const Shape& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    CHECK_GT(extent, 0);
    CHECK(!__builtin_mul_overflow(elements, extent, &elements));
  }
  CHECK_LE(elements, INT64_MAX / 8);
  return elements;
}

/// What a spec views lies inside what is stored.
void check_view(const TensorSpec& spec) {
  const int64_t elements = elements_of(spec.shape);
  const StoredView& view = spec.view;
  if (view.stored_shape.empty()) return;
  const int64_t stored = elements_of(view.stored_shape);
  const int64_t rows = view.row_step == 0 ? 1 : spec.shape[0];
  CHECK_LE(0, view.first_element);
  CHECK_LE(view.first_element + (rows - 1) * view.row_step + elements / rows, stored);
}

/// The ranks' parts of the cut axis are inside it and leave nothing out; only what ranks share is held twice.
void check_cut(const TensorSpec& spec, const Partition& partition) {
  const auto axis = static_cast<size_t>(spec.cut.axis);
  std::vector<Range> all;
  int64_t held = 0;
  for (int rank = 0; rank < partition.world; ++rank) {
    const Shape shape = local_shape(spec, partition, rank);
    CHECK_EQ(shape.size(), spec.shape.size());
    if (spec.cut.whole()) CHECK(shape == spec.shape);
    int64_t parts = 0;
    for (const Range& part : local_parts(spec, partition, rank)) {
      CHECK_LT(part.begin, part.end);
      parts += part.size();
      all.push_back(part);
    }
    CHECK_EQ(parts, shape[axis]);
    held += parts;
  }
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  int64_t covered = 0;
  for (const Range& part : all) {
    CHECK_LE(part.begin, covered);
    covered = std::max(covered, part.end);
  }
  CHECK_EQ(covered, spec.shape[axis]);
  const bool is_shared = spec.cut.whole() || std::any_of(spec.cut.segments.begin(), spec.cut.segments.end(),
                                                         [](const auto& s) { return s.kind != Segment::Kind::kCut; });
  if (!is_shared) CHECK_EQ(held, spec.shape[axis]);
}

void check_plan(const ModelPlan& plan) {
  CHECK_GE(plan.blocks.size(), size_t{2});
  for (int world = 1; world <= limits::kMaxWorld; ++world) {
    const auto partition = make_partition(plan.config, world);
    CHECK(partition.ok());
    CHECK(check_partition(plan.config, *partition).ok());
    // Layers are alike: the first ones and the last.
    for (size_t block = 0; block < plan.blocks.size(); ++block) {
      if (block >= 8 && block + 1 < plan.blocks.size()) continue;
      for (const TensorSpec& spec : plan.blocks[block].tensors) {
        check_view(spec);
        check_cut(spec, *partition);
      }
    }
  }
}

}  // namespace

KRAIT_FUZZ(config, input) {
  const std::string_view all = fuzz::text(input);
  const size_t end = std::min(all.find('\0'), all.size());
  std::optional<std::string_view> generation;
  if (end < all.size()) generation = all.substr(end + 1);
  const auto config = parse_model_config(all.substr(0, end), generation);
  if (!config.ok()) {
    CHECK(config.error().code == Errc::kUnsupported || config.error().code == Errc::kCorrupt ||
          config.error().code == Errc::kTooLarge);
    return fuzz::check_error_text(config.error().message, config.error().param);
  }
  CHECK_LE(config->layers, limits::kMaxLayers);
  CHECK_LE(config->vocab_size, limits::kMaxVocab);
  CHECK_LE(std::max(config->hidden_size, config->mixer.inner_size), limits::kMaxHidden);
  for (const int32_t id : config->eos_ids) {
    CHECK_LE(0, id);
    CHECK_LT(id, config->vocab_size);
  }
  const auto plan = make_model_plan(*config);
  CHECK(plan.ok());
  check_plan(*plan);
  if (fuzz::planted() && config->mixer.conv_kernel == 3) fuzz::found_planted();
}

}  // namespace krait
