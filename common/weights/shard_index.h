// model.safetensors.index.json as text to a map: which file holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace krait {

/// Tensor name to file name. File names are plain: no folder, not hidden, ending in ".safetensors".
/// Errors: kCorrupt, param the tensor or `path`.
Result<std::map<std::string, std::string, std::less<>>> parse_shard_index(std::string_view text, std::string_view path);

}  // namespace krait
