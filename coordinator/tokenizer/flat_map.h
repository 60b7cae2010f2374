// A hash map from 64-bit keys for tables that are filled once and read a million times a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace krait::tokenizer {

/// Spreads the bits of a key over the whole word (the finaliser of MurmurHash3).
inline uint64_t mix_bits(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdULL;
  key ^= key >> 33;
  key *= 0xc4ceb9fe1a85ec53ULL;
  return key ^ key >> 33;
}

/// Open addressing with linear probing, at most half full. The key kNoKey cannot be stored.
template <class Value>
class FlatMap final {
 public:
  static constexpr uint64_t kNoKey = ~uint64_t{0};

  FlatMap() : slots_(16) {}

  void set(uint64_t key, Value value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == kNoKey) ++size_;
    slot.key = key;
    slot.value = value;
  }

  const Value* find(uint64_t key) const {
    const Slot& slot = slots_[place_of(key)];
    return slot.key == kNoKey ? nullptr : &slot.value;
  }

  size_t size() const { return size_; }

 private:
  struct Slot final {
    uint64_t key = kNoKey;
    Value value{};
  };

  size_t place_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mix_bits(key) & mask;
    while (slots_[at].key != kNoKey && slots_[at].key != key)
      at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kNoKey) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace krait::tokenizer
