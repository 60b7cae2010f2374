#include "common/base/version.h"

namespace krait {

std::string version() {
  return KRAIT_VERSION;
}

}  // namespace krait
