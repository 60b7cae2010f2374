// How much a test that draws its cases at random draws: one switch for --long and for builds with a sanitizer.
#pragma once

#include <cstdlib>

namespace krait::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

struct Draws final {
  int usual = 1;
  int sanitized = 1;  // where everything takes ten times as long, and each case is looked at more closely
  int long_run = 1;   // tests/run --long
};

inline int draws(const Draws& wanted) {
  if (kSanitized) return wanted.sanitized;
  const char* wish = std::getenv("KRAIT_TEST_LONG");
  return wish != nullptr && *wish != '\0' ? wanted.long_run : wanted.usual;
}

}  // namespace krait::test
