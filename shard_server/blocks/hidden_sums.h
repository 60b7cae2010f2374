// The sums of a model that go into its residual stream, by name: those whose codec is a choice.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/model/model_plan.h"

namespace krait::shard {

struct HiddenSum final {
  int layer = 0;
  std::string_view operation;  // "out_proj", "o_proj" or "down_proj"
  size_t block = 0;            // index in ModelPlan::blocks
};

/// In the order of the forward pass.
std::vector<HiddenSum> hidden_sums(const ModelPlan& plan);

}  // namespace krait::shard
