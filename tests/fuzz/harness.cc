#include "tests/fuzz/harness.h"

#include <cstdio>
#include <cstdlib>

namespace krait::fuzz {

std::vector<Harness>& harnesses() {
  static std::vector<Harness> all;
  return all;
}

bool planted() {
  static const bool wanted = std::getenv("KRAIT_FUZZ_CANARY") != nullptr;
  return wanted;
}

void found_planted() {
  std::fputs("the planted fault was found\n", stderr);
  std::abort();
}

void check_error_text(std::string_view message, std::string_view param) {
  CHECK(!message.empty());
  CHECK_LT(message.size(), size_t{4096});
  CHECK_LT(param.size(), size_t{4096});
}

}  // namespace krait::fuzz
