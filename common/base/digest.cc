#include "common/base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace krait {
namespace {

XXH3_state_t* state_of(const std::byte* bytes) {
  static_assert(sizeof(XXH3_state_t) <= 576 && alignof(XXH3_state_t) <= 64);
  return reinterpret_cast<XXH3_state_t*>(const_cast<std::byte*>(bytes));
}

}  // namespace

Digest::Digest() {
  XXH3_64bits_reset(state_of(state_));
}

void Digest::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_of(state_), bytes.data(), bytes.size());
}

uint64_t Digest::value() const {
  return XXH3_64bits_digest(state_of(state_));
}

}  // namespace krait
