#include "coordinator/tokenizer/stretch_cache.h"

#include <algorithm>
#include <functional>

#include "coordinator/tokenizer/flat_map.h"

namespace krait::tokenizer {
namespace {

constexpr int64_t kEntryBytes = 256;  // of list, map and allocator, about
constexpr int64_t kMaxShare = 8;      // one stretch takes at most this part of the cache

uint64_t hash_of(const StretchCache::Key& key) {
  uint64_t hash = std::hash<std::string_view>()(key.text) + (key.at_start ? 1 : 0) + (key.parse_special ? 2 : 0);
  for (const ByteRange& range : key.untrusted)
    hash = mix_bits(hash ^ (range.begin << 32 | range.end));
  return mix_bits(hash);
}

}  // namespace

bool StretchCache::Entry::is(const Key& key) const {
  return text == key.text && at_start == key.at_start && parse_special == key.parse_special &&
         std::equal(untrusted.begin(), untrusted.end(), key.untrusted.begin(), key.untrusted.end());
}

int64_t StretchCache::Entry::bytes() const {
  return kEntryBytes + static_cast<int64_t>(text.capacity() + untrusted.capacity() * sizeof(ByteRange) +
                                            ids.capacity() * sizeof(int32_t));
}

bool StretchCache::find(const Key& key, std::vector<int32_t>& out) {
  const auto entry = key.text.size() < kMinBytes ? nullptr : lookup(hash_of(key));
  // Long texts are compared while nobody waits.
  const bool here = entry != nullptr && entry->is(key);
  if (here) out.insert(out.end(), entry->ids.begin(), entry->ids.end());
  (here ? found_bytes_ : encoded_bytes_) += key.text.size();
  return here;
}

std::shared_ptr<const StretchCache::Entry> StretchCache::lookup(uint64_t hash) {
  const std::lock_guard lock(mutex_);
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entries_.front();
}

void StretchCache::put(const Key& key, std::span<const int32_t> ids) {
  if (key.text.size() < kMinBytes) return;
  auto entry = std::make_shared<Entry>();
  entry->hash = hash_of(key);
  entry->text = key.text;
  entry->untrusted.assign(key.untrusted.begin(), key.untrusted.end());
  entry->at_start = key.at_start;
  entry->parse_special = key.parse_special;
  entry->ids.assign(ids.begin(), ids.end());
  if (entry->bytes() > max_bytes_ / kMaxShare) return;

  const std::lock_guard lock(mutex_);
  if (const auto same = by_hash_.find(entry->hash); same != by_hash_.end()) erase(same->second);
  held_bytes_ += entry->bytes();
  entries_.push_front(std::move(entry));
  by_hash_.emplace(entries_.front()->hash, entries_.begin());
  while (held_bytes_ > max_bytes_)
    erase(std::prev(entries_.end()));
}

void StretchCache::erase(Entries::iterator entry) {
  held_bytes_ -= (*entry)->bytes();
  by_hash_.erase((*entry)->hash);
  entries_.erase(entry);
}

StretchCache::Counts StretchCache::counts() const {
  const std::lock_guard lock(mutex_);
  return {found_bytes_, encoded_bytes_, held_bytes_};
}

}  // namespace krait::tokenizer
