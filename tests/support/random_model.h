// Models of odd sizes for every family, seeded: what no fixture and no published checkpoint looks like.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/rng.h"
#include "common/model/model_config.h"
#include "common/tensor/dtype.h"

namespace krait::test {

/// The text of a small config.json of that architecture (a name of architectures.def) with random sizes, every option
/// that its reader honours drawn too; one in two has sizes that eight ranks share evenly.
std::string random_config(std::string_view architecture, SplitMix64& random);

struct RandomModel final {
  std::string config_json;
  ModelConfig config;
  DType dtype = DType::kF32;  // of the stored tensors: any that is served
  int files = 1;
};

/// Writes such a model's checkpoint into the folder: the same for the same seed.
RandomModel write_random_model(const std::string& folder, std::string_view architecture, uint64_t seed);

}  // namespace krait::test
