// A group of ranks as processes of their own, so that they can be stopped and killed.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "tests/support/rank_threads.h"

namespace krait::collectives {

inline Options group_of_processes(int world) {
  Options options = fresh_options(world, ReduceOrder::kRankOrder);
  options.max_rows = 64;
  options.max_width = 256;
  return options;
}

/// A rank; what `body` returns is its exit code, and 100 that it could not be made.
inline pid_t fork_rank(CommunicatorFactory make, Options options, int rank,
                       const std::function<int(Communicator&)>& body) {
  options.rank = rank;
  const pid_t child = fork();
  if (child != 0) return child;
  auto made = make(options);
  if (!made.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, to_string(made.error()).c_str());
  _exit(made.ok() ? body(**made) : 100);
}

/// Of a process that ends; 1000 and the signal's number where one ended it.
inline int exit_code(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// 0: every sum right. 1: an error. 2: a wrong sum.
inline int sum_often(Communicator& communicator, int rounds) {
  const int world = communicator.world();
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = round % 7 + 1;
    std::vector<float> data(static_cast<size_t>(rows) * 256, static_cast<float>(communicator.rank() + round));
    if (!communicator.all_reduce(rows, 256, data.data(), data.data()).ok()) return 1;
    for (const float value : data) {
      if (value != static_cast<float>(world * (world - 1) / 2 + round * world)) return 2;
    }
  }
  return 0;
}

}  // namespace krait::collectives
