// What the harnesses of weight files share: an input as a file, and what may be wrong with one.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/base/result.h"
#include "tests/fuzz/harness.h"

namespace krait::fuzz {

/// Path of a file in memory that holds the input, until the next call.
inline std::string file_of(Input input) {
  static const int fd = memfd_create("fuzz", 0);
  CHECK_EQ(ftruncate(fd, 0), 0);
  CHECK_EQ(pwrite(fd, input.data(), input.size(), 0), static_cast<ssize_t>(input.size()));
  return fmt::format("/proc/self/fd/{}", fd);
}

inline void check_file_error(const Error& error) {
  CHECK(error.code == Errc::kCorrupt || error.code == Errc::kUnsupported || error.code == Errc::kIo ||
        error.code == Errc::kTooLarge);
  check_error_text(error.message, error.param);
}

}  // namespace krait::fuzz
