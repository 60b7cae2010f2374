// Models of odd sizes for every family, seeded: what no fixture and no published checkpoint looks like.
#pragma once

#include <string>
#include <string_view>

#include "common/base/rng.h"

namespace krait::test {

/// The text of a small config.json of that architecture (a name of architectures.def) with random sizes; one in two has
/// sizes that eight ranks share evenly.
std::string random_config(std::string_view architecture, SplitMix64& random);

}  // namespace krait::test
