// Log lines for a test's own eyes.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/log.h"

namespace krait {

/// From now on lines of every level go to `take` instead of standard error; null: back to there. Before threads.
void capture_log(std::function<void(LogLevel level, std::string_view message)> take);

}  // namespace krait
