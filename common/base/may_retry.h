// Which kinds of error pass by themselves.
#pragma once

#include "common/base/result.h"

namespace krait {

/// Whether the same request may do better after a while: the server's state is to blame, neither the request nor a
/// fault. Only such an error tells a client when to come again.
constexpr bool may_retry(Errc code) {
  return code == Errc::kOverloaded || code == Errc::kUnavailable;
}

}  // namespace krait
