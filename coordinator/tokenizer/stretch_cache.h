// Token ids of stretches of text seen lately, in bounded memory: what a conversation has in common with its last turn
// is not tokenized again.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/byte_range.h"

namespace krait::tokenizer {

/// For one tokenizer. A stretch is the text between two added tokens that stand in the input literally: its ids depend
/// on nothing outside of it, so templates' special tokens cut a chat into messages. Any number of threads at once.
class StretchCache final {
 public:
  static constexpr size_t kMinBytes = 16;  // shorter ones are tokenized sooner than found

  /// Everything that a stretch's ids depend on.
  struct Key final {
    std::string_view text;
    std::span<const ByteRange> untrusted;  // in `text`
    bool at_start = false;                 // of the whole input
    bool parse_special = true;
  };
  struct Counts final {
    uint64_t found_bytes = 0;    // of input, whose ids were here
    uint64_t encoded_bytes = 0;  // of input, whose ids were computed
    int64_t held_bytes = 0;
  };

  explicit StretchCache(int64_t max_bytes) : max_bytes_(max_bytes) {}
  StretchCache(const StretchCache&) = delete;
  StretchCache& operator=(const StretchCache&) = delete;

  /// Appends the ids of a stretch that is here to `out`, and counts its bytes either way.
  bool find(const Key& key, std::vector<int32_t>& out);

  /// Stores what find() did not have, unless it is too short, or too large a part of the cache. What was not used for
  /// longest makes room.
  void put(const Key& key, std::span<const int32_t> ids);

  Counts counts() const;

 private:
  struct Entry final {
    uint64_t hash = 0;
    std::string text;
    std::vector<ByteRange> untrusted;
    bool at_start = false;
    bool parse_special = true;
    std::vector<int32_t> ids;

    bool is(const Key& key) const;
    int64_t bytes() const;
  };
  using Entries = std::list<std::shared_ptr<const Entry>>;

  std::shared_ptr<const Entry> lookup(uint64_t hash);
  void erase(Entries::iterator entry);

  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;                                          // the one used last first
  std::unordered_map<uint64_t, Entries::iterator> by_hash_;  // of two with one hash the later one stays
  int64_t held_bytes_ = 0;
  std::atomic<uint64_t> found_bytes_ = 0;
  std::atomic<uint64_t> encoded_bytes_ = 0;
};

}  // namespace krait::tokenizer
