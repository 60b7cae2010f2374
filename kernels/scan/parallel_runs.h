// How the state kernels share their work among the threads of a stream.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device/stream.h"
#include "kernels/scan/runs.h"

namespace krait::kernels {

/// Calls work(run, block_begin, block_end) so that every (run, channel block) is covered once. Runs differ widely in
/// length, so threads share the channels of every run while there are enough of them; only a narrow slice with many
/// runs is shared by runs.
template <class Work>
void for_runs_and_blocks(Stream& stream, std::span<const Run> runs, int64_t blocks, const Work& work) {
  const auto count = static_cast<int64_t>(runs.size());
  if (blocks >= stream.threads() || count == 1) {
    stream.parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (const Run& run : runs)
        work(run, begin, end);
    });
  } else {
    stream.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        work(runs[static_cast<size_t>(i)], 0, blocks);
    });
  }
}

}  // namespace krait::kernels
