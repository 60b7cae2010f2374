// Which pages of keys and values are free, and how many sequences use each of the others. Ranks hold the pages; who may
// use which one is decided here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/units.h"

namespace krait::scheduler {

class PagePool final {
 public:
  explicit PagePool(uint32_t pages) : users_(pages, 0) {
    for (auto page = static_cast<int32_t>(pages) - 1; page >= 0; --page)
      free_.push_back(page);
  }

  uint32_t total() const { return static_cast<uint32_t>(users_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }

  /// Pages for that many tokens; none where the model has no keys and values.
  int64_t needed(int64_t tokens) const { return users_.empty() ? 0 : ceil_div(tokens, limits::kKvPageTokens); }

  /// At most free() of them, with one user.
  std::vector<int32_t> take(int64_t pages) {
    CHECK_LE(pages, int64_t{free()});
    std::vector<int32_t> taken(free_.end() - pages, free_.end());
    free_.resize(free_.size() - static_cast<size_t>(pages));
    share(taken);
    return taken;
  }
  /// One more user of pages that somebody has: of those that nobody writes any more.
  void share(std::span<const int32_t> pages) {
    for (const int32_t page : pages)
      ++users_[static_cast<size_t>(page)];
  }
  /// One user less; without any a page is free. Ranks run plans in order, so that whoever gets it next writes after
  /// whoever had it.
  void give_back(std::span<const int32_t> pages) {
    for (const int32_t page : pages) {
      CHECK_GT(users_[static_cast<size_t>(page)], 0u);
      if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
    }
  }

 private:
  std::vector<uint32_t> users_;  // by page
  std::vector<int32_t> free_;
};

}  // namespace krait::scheduler
