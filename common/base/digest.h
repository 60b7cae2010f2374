// A fast 64-bit digest of bytes, to notice when copies that must be equal are not. Not a protection against malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace krait {

/// XXH3, 64 bits, over everything given to update(), in order.
class Digest final {
 public:
  Digest();
  void update(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  alignas(64) std::byte state_[576];  // XXH3_state_t, whose header stays out of ours
};

}  // namespace krait
