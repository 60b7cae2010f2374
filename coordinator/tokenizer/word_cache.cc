#include "coordinator/tokenizer/word_cache.h"

#include <algorithm>
#include <cstring>

#include "common/base/limits.h"
#include "coordinator/tokenizer/flat_map.h"

namespace krait::tokenizer {
namespace {

uint64_t hash_of(std::string_view word) {
  uint64_t hash = word.size() * 0x9e3779b97f4a7c15ULL;
  size_t at = 0;
  for (; at + 8 <= word.size(); at += 8) {
    uint64_t part;
    std::memcpy(&part, word.data() + at, 8);
    hash = mix_bits(hash ^ part);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, word.data() + at, word.size() - at);
  return mix_bits(hash ^ rest);
}

constexpr size_t kSlots = limits::kTokenizerCacheWords * 2;
static_assert((kSlots & (kSlots - 1)) == 0, "places are found with a mask");

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

size_t WordCache::place_of(std::string_view word, uint64_t hash) const {
  size_t at = hash & (kSlots - 1);
  while (slots_[at].used) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.word_bytes == word.size() &&
        std::memcmp(words_.data() + slot.word_at, word.data(), word.size()) == 0) {
      break;
    }
    at = (at + 1) & (kSlots - 1);
  }
  return at;
}

std::optional<std::span<const int32_t>> WordCache::find(std::string_view word) const {
  if (word.size() > kMaxWordBytes) return std::nullopt;
  const Slot& slot = slots_[place_of(word, hash_of(word))];
  if (!slot.used) return std::nullopt;
  return std::span(ids_).subspan(slot.ids_at, slot.id_count);
}

void WordCache::put(std::string_view word, std::span<const int32_t> ids) {
  // A character gives at most one id for each of its bytes, so the count fits.
  if (word.size() > kMaxWordBytes || ids.size() > UINT16_MAX) return;
  if (size_ >= limits::kTokenizerCacheWords) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    words_.clear();
    ids_.clear();
    size_ = 0;
  }
  const uint64_t hash = hash_of(word);
  Slot& slot = slots_[place_of(word, hash)];
  if (slot.used) return;
  slot = {hash,
          static_cast<uint32_t>(words_.size()),
          static_cast<uint32_t>(ids_.size()),
          static_cast<uint16_t>(word.size()),
          static_cast<uint16_t>(ids.size()),
          true};
  words_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++size_;
}

}  // namespace krait::tokenizer
