// What the present thread asks operator new for. Whoever is linked with this has operators of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krait::test {

struct Allocations final {
  int64_t count = 0;     // so far
  size_t bytes = 0;      // so far, whatever was given back
  int64_t allowed = -1;  // before there is no memory; -1: there is always some
};

/// Those of the present thread.
Allocations& allocations();

}  // namespace krait::test
