// The first arguments of benchmarks of kernels: threads, and an instruction path.
#pragma once

#include <cstdlib>
#include <optional>

#include "common/base/limits.h"
#include "kernels/device/stream.h"

namespace krait::kernels {

/// "[threads] [path]": one thread and the best path where they are left out; none where this processor has not got the
/// path.
inline std::optional<StreamOptions> stream_arguments(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::optional<CpuPath> path = argc > 2 ? cpu_path_from_name(argv[2]) : best_cpu_path();
  if (threads < 1 || threads > limits::kMaxThreads || !path || *path > best_cpu_path()) return std::nullopt;
  return StreamOptions{.threads = threads, .path = *path};
}

}  // namespace krait::kernels
