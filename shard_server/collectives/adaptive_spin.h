// Whether a wait spins before it sleeps: only as long as spinning is seen to pay.
#pragma once

#include <algorithm>

#include "common/base/limits.h"

namespace krait::collectives {

/// A spin that ends in vain shows that the peer has no core, which spinning may keep from it, or has more to do than a
/// spin is long. Then waits sleep at once: one, after a second such spin three, then seven and so on up to
/// limits::kMaxUnspunWaits. A spin that ends well forgets all that.
class AdaptiveSpin final {
 public:
  explicit AdaptiveSpin(bool may_spin) : may_spin_(may_spin) {}

  /// Whether the wait that begins may spin.
  bool next_spins() {
    if (!may_spin_) return false;
    if (unspun_ == 0) return true;
    --unspun_;
    return false;
  }

  /// How a spin has ended.
  void spun(bool well) { unspun_ = in_vain_ = well ? 0 : std::min(2 * in_vain_ + 1, limits::kMaxUnspunWaits); }

 private:
  const bool may_spin_;
  int in_vain_ = 0;  // waits that the latest spins cost
  int unspun_ = 0;   // of those, the ones to come
};

}  // namespace krait::collectives
