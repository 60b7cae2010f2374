// What every harness of this folder shares: how it is registered, how it reads its input, and what it must find.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace krait::fuzz {

using Input = std::span<const uint8_t>;

/// Takes any bytes. A find is a failed CHECK, whatever a sanitizer reports, a time-out, or too much memory.
struct Harness final {
  std::string name;
  void (*run)(Input input) = nullptr;
};

/// Those of this program: one in a fuzzer, all of them where inputs are replayed.
std::vector<Harness>& harnesses();

/// True when the run has to show that finds are found (KRAIT_FUZZ_CANARY is set): every harness then has a fault, deep
/// enough that only a fuzzer that sees the room behind it gets there.
bool planted();

/// True for one in 16 of the numbers that a harness draws from what its room made of an input, when planted(). Corpora
/// shrink to what is new, so a fault behind one certain byte of one seed is found or missed by luck.
inline bool planted_at(uint64_t number) {
  return number % 16 == 11 && planted();
}

/// The planted fault has been reached: ends the process as a failed CHECK would, with words that the runner knows.
[[noreturn]] void found_planted();

/// Takes an input apart from its front; an input that is used up gives zeros.
class Source final {
 public:
  explicit Source(Input input) : left_(input) {}

  bool empty() const { return left_.empty(); }

  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(sizeof(T), left_.size());
    std::memcpy(&value, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return value;
  }
  uint8_t byte() { return take<uint8_t>(); }
  /// A number in [0, end).
  uint32_t below(uint32_t end) { return end > 256 ? take<uint16_t>() % end : byte() % end; }
  Input rest() { return std::exchange(left_, Input{}); }

 private:
  Input left_;
};

inline std::string_view text(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

/// An error says what is wrong, in UTF-8 and not at any length, and where.
void check_error_text(std::string_view message, std::string_view param);

}  // namespace krait::fuzz

/// KRAIT_FUZZ(wire, input) { ... }: the file wire_fuzz.cc's harness.
#define KRAIT_FUZZ(name, input)                                           \
  static void fuzz_##name(::krait::fuzz::Input input);                    \
  [[maybe_unused]] static const bool registered_##name =                  \
      (::krait::fuzz::harnesses().push_back({#name, fuzz_##name}), true); \
  static void fuzz_##name(::krait::fuzz::Input input)
