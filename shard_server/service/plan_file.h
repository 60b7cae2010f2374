// The file that krait-tune writes for one model, world and type of weights, and a leader reads: JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/messages.h"

namespace krait::shard {

/// What the file was made for, and what it says. In a file `sums` names every hidden sum of the model, exact ones too.
struct PlanFile final {
  std::string fingerprint;  // of the checkpoint
  uint32_t world = 0;
  std::string dtype;  // weight type, as weight_type_name() spells it
  wire::CollectivePlan plan;
  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

std::string plan_file_text(const PlanFile& file);

/// kCorrupt, naming `path` and the field (also in param), where it is no such file: no JSON, another version, a field
/// that is missing, unknown, of another type or beyond its limits, a codec or an order of rows that the collectives do
/// not take. Takes any bytes without harm.
Result<PlanFile> parse_plan_file(std::string_view text, const std::string& path);

}  // namespace krait::shard
