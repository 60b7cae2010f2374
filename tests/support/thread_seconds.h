// Processor time, for what is measured on a machine that does other things.
#pragma once

#include <time.h>

namespace krait::test {

/// What the present thread has used of a core so far.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace krait::test
