// How the tools end: what went wrong is one sentence on standard error, behind the tool's name.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/result.h"

namespace krait::tools {

/// The rest of main(): exit code 2 where the options were wrong (`parsed`), 0 where --help or --version was all, else
/// that of `work`: 0, or 1. An exception that leaves it ends so too.
int run_tool(std::string_view tool, const Result<bool>& parsed, const std::function<Status()>& work);

/// Writes to standard output. kIo where that is not possible.
Status print_out(std::string_view text);

}  // namespace krait::tools
