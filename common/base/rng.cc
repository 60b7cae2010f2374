#include "common/base/rng.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace krait {

uint64_t random_u64() {
  uint64_t value = 0;
  CHECK_EQ(getrandom(&value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
  return value;
}

}  // namespace krait
