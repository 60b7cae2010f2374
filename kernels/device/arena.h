// Memory for weights and buffers that live as long as the engine: huge pages, allocated once, freed together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace krait::kernels {

/// Hands out pieces of large mappings that start on 2 MiB bounds and ask for huge pages (reading weights is 1.3-1.9
/// times as fast from those). Pages become resident when first touched. Used by one thread at a time.
class Arena final {
 public:
  static constexpr int64_t kAlignment = 64;  // bytes; of every piece

  /// `purpose`: what its memory is for, and which option makes that less; part of its errors' words.
  explicit Arena(std::string_view purpose = "buffers") : purpose_(purpose) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Bytes that a piece of `bytes` takes.
  static int64_t piece_bytes(int64_t bytes);

  /// Maps room for further pieces of `bytes` in all (their piece_bytes added up), so that they lie in one mapping and
  /// nothing is mapped beyond them. Without it, mappings come in chunks. Error: kResourceExhausted.
  Status reserve(int64_t bytes);

  /// A zeroed piece, aligned to kAlignment. Never null, also for 0 bytes. Error: kResourceExhausted.
  Result<std::byte*> allocate(int64_t bytes);

  /// Bytes of all pieces, and of all mappings.
  int64_t bytes() const { return bytes_; }
  int64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct Chunk final {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t used = 0;
  };

  Status map_chunk(int64_t bytes);
  Error out_of_memory(int64_t bytes) const;

  std::string_view purpose_;
  std::vector<Chunk> chunks_;  // pieces come from the last one
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
};

}  // namespace krait::kernels
