// Which pages of keys and values are free. Ranks hold the pages; who may use which one is decided here.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::scheduler {

class PagePool final {
 public:
  explicit PagePool(uint32_t pages) : total_(pages) {
    for (auto page = static_cast<int32_t>(pages) - 1; page >= 0; --page)
      free_.push_back(page);
  }

  uint32_t total() const { return total_; }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }

  /// Pages for that many tokens; none where the model has no keys and values.
  int64_t needed(int64_t tokens) const { return total_ == 0 ? 0 : ceil_div(tokens, limits::kKvPageTokens); }

  /// At most free() of them.
  std::vector<int32_t> take(int64_t pages) {
    CHECK_LE(pages, int64_t{free()});
    const std::vector<int32_t> taken(free_.end() - pages, free_.end());
    free_.resize(free_.size() - static_cast<size_t>(pages));
    return taken;
  }
  /// What was taken. Ranks run plans in order, so that whoever gets them next writes after whoever had them.
  void give_back(const std::vector<int32_t>& pages) { free_.insert(free_.end(), pages.begin(), pages.end()); }

 private:
  const uint32_t total_;
  std::vector<int32_t> free_;
};

}  // namespace krait::scheduler
