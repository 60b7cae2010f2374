// The version of the programs, as --version, /metrics and the wire show it.
#pragma once

#include <string>

namespace krait {

/// The project's version in CMakeLists.txt.
std::string version();

}  // namespace krait
