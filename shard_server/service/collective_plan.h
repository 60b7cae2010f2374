// How the hidden sums of a group travel: what an operator asks for, what the leader's Form says, what a rank runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/weights/checkpoint.h"
#include "common/wire/messages.h"
#include "shard_server/collectives/sum_table.h"
#include "shard_server/engine/sum_codecs.h"

namespace krait::shard {

/// Values of --collectives: a codec's name for all hidden sums ("exact": floats); "auto": as krait-tune's file says;
/// "fast": by the size of each sum, which gives the exactness contract up.
std::vector<std::string> sum_modes();

struct SumChoice final {
  std::string mode = "exact";  // of sum_modes()
  std::string plan_path;       // krait-tune's file; empty: for "auto" default_plan_path(), else none
  uint32_t world = 1;
  std::string dtype;  // of the weights
};
/// What Form says about sums.
struct GroupSums final {
  std::string codec = "exact";
  wire::CollectivePlan plan;
};

/// Reads the file where the choice needs or names one, and says in the log what was chosen. One rank alone adds
/// nothing, and needs none. Errors name the file and its field: kNotFound, kIo, kCorrupt (as parse_plan_file(), or not
/// of this model's sums), kInvalidArgument (made for another model, world or type of weights; an unknown mode).
Result<GroupSums> choose_sums(const SumChoice& choice, const Checkpoint& checkpoint);

/// "collectives-2.json" in the model's folder; beside a file of weights, behind its name.
std::string default_plan_path(const Checkpoint& checkpoint, uint32_t world);

/// Which codec each hidden sum of the model has. kProtocol, with the field in param, where the form names a codec that
/// is not known here, a sum that the model does not have, or one sum twice.
Result<SumCodecs> codecs_of(const wire::Form& form, const ModelPlan& model);
/// kProtocol, as above.
Result<std::vector<collectives::SizeCodec>> size_codecs_of(const wire::CollectivePlan& plan);
Result<std::shared_ptr<const collectives::SumTable>> algorithms_of(const wire::CollectivePlan& plan);

}  // namespace krait::shard
