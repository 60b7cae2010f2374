// A checkpoint that no file holds: weights out of a generator, so that a model can be measured by its sizes alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/model/model_plan.h"
#include "common/weights/checkpoint.h"
#include "common/weights/tensor_source.h"

namespace krait::tools {

/// Every tensor of a plan, in bfloat16. A value depends on the seed, its tensor and its place in it alone, and costs
/// about a nanosecond when it is read; nothing is kept. Values keep rows of ordinary size through any number of layers:
/// matrices have the variance 1 / k, norms and D lie about 1, A_log and the biases of dt in the ranges that training
/// begins with.
class RandomWeights final : public TensorSource {
 public:
  RandomWeights(std::string name, const ModelPlan& plan, uint64_t seed);

  const std::string& name() const override { return name_; }
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const override { return tensors_; }
  Status read(const StoredTensor& tensor, int64_t first, std::span<std::byte> out) const override;
  Status check_unchanged() const override { return {}; }

 private:
  /// Of the values of one tensor.
  struct Uniform final {
    float low = 0;
    float high = 0;
  };
  static Uniform uniform_of(const TensorSpec& spec);

  std::string name_;
  uint64_t seed_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;  // as if they lay one after another in a file
  std::map<int64_t, Uniform> uniforms_;                       // by the tensor's offset
};

/// The checkpoint of a config.json with such weights. Errors are those of the config.
Result<std::shared_ptr<const Checkpoint>> random_checkpoint(const std::string& name, const std::string& config_json,
                                                            uint64_t seed = 1);

}  // namespace krait::tools
