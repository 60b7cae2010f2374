// The sizes of models that people know by name: what a benchmark measures without their weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace krait::tools {

/// "mamba-130m" and so on, from small to large.
std::vector<std::string> shape_names();

/// The text of that model's config.json, what decides its sizes. kNotFound, param "shape", where nobody knows it.
Result<std::string> shape_config(std::string_view name);

}  // namespace krait::tools
