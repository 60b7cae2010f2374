// A stretch of a text, in bytes.
#pragma once

#include <cstddef>

namespace krait {

struct ByteRange final {
  size_t begin = 0;
  size_t end = 0;  // one behind the last

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace krait
