// Token ids of words seen lately, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace krait::tokenizer {

/// Used by one thread at a time. When full it forgets everything and fills again: simpler than evicting, and ordinary
/// text fills it again within milliseconds.
class WordCache final {
 public:
  static constexpr size_t kMaxWordBytes = 64;  // longer words are rarely seen twice

  WordCache();

  /// The ids stored for `word`, valid until the next put().
  std::optional<std::span<const int32_t>> find(std::string_view word) const;

  /// Stores a word that is not there. Words longer than kMaxWordBytes are not stored.
  void put(std::string_view word, std::span<const int32_t> ids);

 private:
  struct Slot final {
    uint64_t hash = 0;
    uint32_t word_at = 0;  // in words_
    uint32_t ids_at = 0;   // in ids_
    uint16_t word_bytes = 0;
    uint16_t id_count = 0;
    bool used = false;
  };

  size_t place_of(std::string_view word, uint64_t hash) const;

  std::vector<Slot> slots_;
  std::string words_;
  std::vector<int32_t> ids_;
  size_t size_ = 0;
};

}  // namespace krait::tokenizer
