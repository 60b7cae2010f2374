// CHECK: a programmer's error ends the process, loudly, in every build. Never reachable from input.
#pragma once

#include <fmt/format.h>

#include <string>

namespace krait {

/// Prints where and what, then aborts. Called by the macros below.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

namespace internal {

template <class T>
std::string show_for_check(const T& value) {
  if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else {
    return "?";
  }
}

}  // namespace internal
}  // namespace krait

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::krait::check_failed(__FILE__, __LINE__, #condition, ::std::string()); \
  } while (false)

#define KRAIT_CHECK_OP(a, op, b)                                                                                  \
  do {                                                                                                            \
    const auto& check_a = (a);                                                                                    \
    const auto& check_b = (b);                                                                                    \
    if (!(check_a op check_b)) [[unlikely]]                                                                       \
      ::krait::check_failed(                                                                                      \
          __FILE__, __LINE__, #a " " #op " " #b,                                                                  \
          ::krait::internal::show_for_check(check_a) + " against " + ::krait::internal::show_for_check(check_b)); \
  } while (false)

#define CHECK_EQ(a, b) KRAIT_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) KRAIT_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) KRAIT_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) KRAIT_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) KRAIT_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) KRAIT_CHECK_OP(a, >=, b)
